"""Tools that are classes: the method that does the work is replaced in the class.

Which object a call is for is known only at the call, so the place where a copy
finds it is looked for then: globals can be rebound, and an object that was
free of state can have some by now.
"""
import functools
import types

from . import decide, errors, owner, proxy, runtime, start, warn


def guard_class(cls, names, framework, text_tool=False, advice=""):
    """Replaces the methods that cls itself defines under names. advice stands in
    the refusal of an object that holds state."""
    if not text_tool and not owner.owns_class(cls):
        return
    for name in names:
        fn = vars(cls).get(name)
        if isinstance(fn, types.FunctionType) and not proxy.is_proxy(fn):
            setattr(cls, name, guard_method(fn, framework, None, text_tool, advice))


def guard_method(fn, framework, name=None, text_tool=False, advice=""):
    """The stand-in for one method: a function of the same kind that takes self."""
    state = runtime.state()
    target = state.registry.register(fn, framework, name or _readable(fn))
    if state.side == start.COPY:
        from .copy import gate
        return gate.wrap(fn, target)
    target.decision = decide.decide(fn, target, text_tool)
    if target.decision.where == decide.STAYS:
        return fn
    return proxy.make(fn, MethodRun(fn, target, advice))


def _readable(fn):
    return fn.__qualname__ if fn.__name__.startswith("_") or fn.__name__ == "forward" else fn.__name__


class MethodRun(proxy.Run):
    """Runs a method whose object is the first argument."""

    def __init__(self, fn, target, advice=""):
        proxy.Run.__init__(self, fn, target)
        self.advice = advice

    def making(self, args, kwargs, stream=False):
        """The object goes by its place, never by its content."""
        obj, rest = args[0], args[1:]
        one = proxy.Run(self.fn, self.target, instance=self._place(obj))
        return one.making(rest, kwargs, stream)

    def _place(self, obj):
        place, decision = decide.method(obj, self._named(obj), self.advice)
        if place is None:
            error = errors.Unsandboxable(decision.why, reason=decision.reason)
            warn.refused(self.target, error)
            raise error
        return place

    def _named(self, obj):
        name = getattr(obj, "name", None)
        return _Named(name) if isinstance(name, str) else self.target


class _Named(object):
    def __init__(self, name):
        self.name = name


def replace_subclass_hook(base, each):
    """Calls each(cls) for every class derived from base from now on."""
    original = base.__init_subclass__.__func__

    @functools.wraps(original)
    def hooked(cls, **kwargs):
        original(cls, **kwargs)
        each(cls)

    base.__init_subclass__ = classmethod(hooked)
