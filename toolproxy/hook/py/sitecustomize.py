"""Starts the tool-call hook, then gives the turn to the user's own sitecustomize.

The site module imports the first `sitecustomize` on sys.path and no other, so
this one has to find the next one itself. Each file runs once, whichever of the
two came first. The hook's own failures are kept for the boot record: they
never reach the program and nothing is printed.
"""
import os
import sys


def _start():
    try:
        from code_sandbox_hook import imagepath, start
        imagepath.restore()
        start.install()
    except Exception as error:  # the program must start whatever happens to us
        sys._code_sandbox_failure = error


def _next(name):
    """The spec of the first module called name on sys.path that has not run."""
    from importlib.machinery import PathFinder
    done = sys.__dict__.setdefault("_code_sandbox_chain", set())
    done.add(os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".py")))
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None):
        done.add(os.path.realpath(loaded.__file__))
    for entry in list(sys.path):
        try:
            spec = PathFinder.find_spec(name, [entry])
        except Exception:
            continue
        if spec is None or spec.loader is None or not spec.origin:
            continue
        if os.path.realpath(spec.origin) not in done:
            done.add(os.path.realpath(spec.origin))
            return spec
    return None


def _chain(name):
    """Runs the user's own module. What it raises is the user's: site reports it
    as it would without us."""
    spec = _next(name)
    if spec is None:
        return
    from importlib.util import module_from_spec
    module = module_from_spec(spec)
    mine = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if mine is not None:
            sys.modules[name] = mine
        raise


if not getattr(sys, "_code_sandbox_started", False):
    sys._code_sandbox_started = True
    _start()
_chain("sitecustomize")
