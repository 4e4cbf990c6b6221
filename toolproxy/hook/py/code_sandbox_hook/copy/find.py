"""Finds the function of a target after the import, and makes sure it is the same."""
import inspect
import sys
import types

from .. import fingerprint, registry, runtime


class NotFound(Exception):
    """No such function, or another one. reason is one word of the protocol."""

    def __init__(self, reason, message):
        super(NotFound, self).__init__(message)
        self.reason = reason


def function(target):
    """The callable of a target. Raises NotFound."""
    if target.get("instance"):
        return _method(target)
    found = _registered(target)
    if found is None:
        found = _by_name(target)
    if found is None:
        raise NotFound("made_at_run_time", "tool %r was not made by the import of %s: it is created at run time, or "
                       "under if __name__ == \"__main__\"; create it at module level" % (
                           target.get("qualname"), target.get("module")))
    _same(found, target)
    return found


def _registered(target):
    state = runtime.state()
    return state.registry.find(target.get("module"), target.get("qualname"), target.get("line"),
                               target.get("ordinal"))


def _by_name(target):
    """A function of a module's top level that the import itself did not register."""
    qualname = target.get("qualname") or ""
    if "<" in qualname or target.get("partial"):
        return None
    found = _walk(target.get("module"), qualname)
    if _unbound(target.get("module"), qualname):
        return None  # the object it belonged to is not known here
    found = getattr(found, "func", found) if not callable(found) else found
    for layer in _layers(found):
        if isinstance(layer, (types.FunctionType, types.MethodType)):
            if layer.__code__.co_firstlineno == target.get("line"):
                return layer
    return None


def _unbound(module, qualname):
    """True for a method that would be called without its object."""
    holder, _, name = qualname.rpartition(".")
    cls = _walk(module, holder) if holder else None
    return isinstance(cls, type) and isinstance(inspect.getattr_static(cls, name, None), types.FunctionType)


def _layers(found):
    for _ in range(16):
        if found is None:
            return
        yield found
        found = getattr(found, "__wrapped__", None)


def _walk(module, qualname):
    found = sys.modules.get("__mp_main__" if module == "__main__" else module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _method(target):
    obj = _object(target["instance"])
    name = (target.get("qualname") or "").split(".")[-1]
    plain = inspect.getattr_static(type(obj), name, None)
    bound = getattr(obj, name, None)
    if plain is None or bound is None:
        raise NotFound("code_mismatch", "the object of tool %r has no method %s in the copy" % (
            target.get("qualname"), name))
    layers = list(_layers(getattr(plain, "__func__", plain)))
    matching = [f for f in layers if isinstance(f, types.FunctionType) and fingerprint.code_hash(f) == target.get("code")]
    _same(matching[0] if matching else layers[-1], target)
    return bound


def _object(place):
    path = place.get("path") or place.get("construct") or ""
    module, _, names = path.partition(":")
    if ("__mp_main__" if module == "__main__" else module) not in sys.modules:
        __import__(module)
    found = _walk(module, names)
    if found is None:
        raise NotFound("state", "the copy has no %s; make the object at module level" % path)
    obj = found() if place.get("construct") else found
    if getattr(obj, "is_initialized", True) is False and hasattr(obj, "setup"):
        obj.setup()  # smolagents does this before the first call
    return obj


def _same(found, target):
    """The copy must run the code that the agent would have run."""
    base = registry.inner(found)
    base = getattr(base, "__func__", base)
    if target.get("code") and fingerprint.code_hash(base) != target["code"]:
        raise NotFound("code_mismatch", "tool %r is other code in the copy than in the agent: the program was changed "
                       "while it ran, or defines it differently at each start" % target.get("qualname"))
    mine = fingerprint.bindings(base, {})
    if not fingerprint.same_bindings(mine, list(target.get("bindings") or [])):
        raise NotFound("code_mismatch", "tool %r holds other values in the copy than in the agent; its closure or "
                       "defaults depend on something outside of the code" % target.get("qualname"))


