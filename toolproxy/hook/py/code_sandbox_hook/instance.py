"""How a copy gets the object that a method belongs to.

The object itself never crosses: it holds clients and keys. Either it is
reachable from a module's globals, or its class makes an equal one without
arguments. Else there is no honest way.
"""
import functools
import inspect
import sys
import types

from . import owner

CONTAINERS = (types.ModuleType, type, types.FunctionType)
MOST_OBJECTS = 20000
# Attributes that frameworks act on around the body, in the agent: they may differ.
AROUND = frozenset((
    "is_initialized", "current_usage_count", "max_usage_count", "callbacks", "verbose", "tags", "metadata",
    "handle_tool_error", "handle_validation_error", "return_direct", "result_as_answer", "cache_function",
    "description_updated", "tool_failure_policy"))


def locate(obj, own_class=True):
    """{"path": "module:attr.attr"}, {"construct": "module:Class"} or None."""
    path = _reachable(obj)
    if path:
        return {"path": path}
    if _stateless(obj):
        cls = type(obj)
        return {"construct": cls.__module__ + ":" + cls.__qualname__}
    return None


def _reachable(obj):
    seen = [0]
    for name, module in _modules(obj):
        for attribute, value in list(vars(module).items()):
            found = _walk(obj, value, attribute, 2, seen)
            if found:
                return name + ":" + found
    return ""


def _modules(obj):
    first = [type(obj).__module__, "__main__"]
    names = first + [name for name, _ in owner.own_modules() if name not in first]
    for name in names:
        module = sys.modules.get(name)
        if module is not None and name != "__mp_main__":
            yield name, module


def _walk(obj, value, path, depth, seen):
    if value is obj:
        return path
    seen[0] += 1
    if depth == 0 or seen[0] > MOST_OBJECTS or isinstance(value, CONTAINERS):
        return ""
    try:
        inner = vars(value)
    except TypeError:
        return ""
    for name, child in list(inner.items()):
        if isinstance(name, str) and name.isidentifier():
            found = _walk(obj, child, path + "." + name, depth - 1, seen)
            if found:
                return found
    return ""


def _stateless(obj):
    """True when type(obj)() is equal to obj and making one is harmless: its
    constructor is object's or a library's, not the user's."""
    cls = type(obj)
    if "<locals>" in cls.__qualname__ or _attribute(cls.__module__, cls.__qualname__) is not cls:
        return False
    for base in cls.__mro__:
        if any(_written_by_user(vars(base).get(name))
               for name in ("__init__", "__new__", "__post_init__", "model_post_init")):
            return False
    try:
        fresh = cls()
        return _state(fresh) == _state(obj)
    except Exception:
        return False


def _written_by_user(fn):
    """True for a user's function, also inside of a wrapper that a library put around it."""
    fn = getattr(fn, "__func__", fn)
    if not isinstance(fn, types.FunctionType):
        return False
    inside = [cell.cell_contents for cell in fn.__closure__ or () if _filled(cell)]
    return any(owner.owns_function(f) for f in [fn] + [f for f in inside if isinstance(f, types.FunctionType)])


def _filled(cell):
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _state(obj):
    """What obj holds, without what it has only computed and kept."""
    state = {k: v for k, v in getattr(obj, "__dict__", {}).items()
             if k not in AROUND and not isinstance(inspect.getattr_static(type(obj), k, None), functools.cached_property)}
    private = getattr(obj, "__pydantic_private__", None) or {}
    return {"fields": {k: _comparable(v) for k, v in state.items()},
            "private": {k: _comparable(v) for k, v in private.items()}}


def _comparable(value):
    """Values as they are; objects without an equality of their own by their state."""
    if type(value).__eq__ is not object.__eq__ or isinstance(value, CONTAINERS):
        return value
    if isinstance(value, type) or callable(value):
        return value
    if hasattr(value, "__dict__"):
        return (type(value), {k: _comparable(v) for k, v in vars(value).items()} if _shallow(value) else id(value))
    return type(value)


def _shallow(value):
    return not any(hasattr(v, "__dict__") and not isinstance(v, CONTAINERS) for v in vars(value).values())


def _attribute(module, qualname):
    found = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found
