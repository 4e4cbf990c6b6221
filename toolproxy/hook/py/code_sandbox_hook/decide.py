"""The table "which functions run where". Pure: it looks, it does not act."""
import inspect
import os
import sys
import types

from . import injected, instance, owner, registry

SANDBOXED, STAYS, REFUSED = "sandboxed", "stays", "refused"


class Decision(object):
    """Where a function runs, and in a sentence why."""

    def __init__(self, where, why="", reason="", context=False):
        self.where = where
        self.why = why
        self.reason = reason
        self.context = context


def decide(fn, target, text_tool=False):
    """The Decision on fn. It may fill target.instance and target.drop."""
    if getattr(sys, "frozen", False):
        return _refuse(target, "frozen_app", "the program is frozen into one file, so a copy cannot import its "
                       "modules; run it from source in the image")
    if not text_tool and not owner.owns_function(fn):
        return Decision(STAYS, "it is a library's function, not the agent's own")
    hints = injected.hints(fn)
    names, target.drop = injected.find(fn, target.framework, hints)
    if names:
        return _refuse(target, "context_parameter", "its parameter %s takes an object of the framework, which "
                       "belongs to the agent; take plain values instead, or set tools-context to inline to run it "
                       "in the agent" % ", ".join(repr(n) for n in names), context=True)
    command = injected.returns_command(hints)
    if command and not _result_allowed(command):
        return _refuse(target, "steering_result", "it returns %s, which steers the agent; return a plain value, or "
                       "allow it by name with allow-results" % command)
    return _by_place(fn, target)


def _by_place(fn, target):
    base = registry.inner(fn)
    if not isinstance(base, (types.FunctionType, types.MethodType)):
        return _refuse(target, "not_a_function", "it is %s, not a Python function; wrap it in a function of a "
                       "module" % type(base).__name__)
    if isinstance(base, types.MethodType) and not isinstance(base.__self__, type):
        target.instance = instance.locate(base.__self__)
    module = target.base[0]
    if module == "__main__" and not _main_file():
        return _refuse(target, "no_main_file", "it is defined in code that is not in a file; move it to a module")
    filename = getattr(owner.code_of(base), "co_filename", "")
    if filename.startswith("<") or not os.path.exists(filename):
        return _refuse(target, "no_source_file", "its code is not in a file that a copy could import; move it to a "
                       "module")
    return Decision(SANDBOXED)


def method(obj, target, advice=""):
    """The Decision on a tool class's method for one instance, and where a copy
    finds that instance."""
    place = instance.locate(obj)
    if place is None:
        return None, _refuse(target, "state", "its object is made at run time and holds state that a copy cannot "
                             "have; " + (advice or "make the object at module level, or make the class free of state"))
    return place, Decision(SANDBOXED)


def runtime_made(target):
    """The refusal of what the copy did not find after its import."""
    return _refuse(target, "made_at_run_time", "the copy's import did not make it: it is created at run time or "
                   "under if __name__ == \"__main__\"; create it at module level")


def _refuse(target, reason, why, context=False):
    return Decision(REFUSED, "cannot run tool %r in a sandbox: %s" % (target.name, why), reason, context)


def _main_file():
    main = sys.modules.get("__main__")
    filename = getattr(main, "__file__", None)
    return bool(filename) and os.path.exists(filename)


def _result_allowed(name):
    from . import runtime
    return name in runtime.policy().allow_results


def is_generator(fn):
    """True for generator functions, sync or async."""
    return inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)
