"""The exception of a tool, rebuilt in the agent from what the copy says of it.

The first class of its MRO that may be rebuilt is taken. Where that is not the
class itself, a class of the same name is derived from it, so that a framework
that prints the type's name prints the right one.
"""
import builtins
import inspect
import sys

from . import classes, decode, encode, errors, groups, owner

# Exceptions by which a tool speaks to its framework: module -> names.
FRAMEWORK = {
    "langchain_core.tools.base": ("ToolException",),
    "pydantic_ai.exceptions": ("ModelRetry", "CallDeferred", "ApprovalRequired", "ToolFailed"),
    "mcp.server.mcpserver.exceptions": ("ToolError", "ResourceError"),
    "mcp.server.fastmcp.exceptions": ("ToolError",),
    "mcp.shared.exceptions": ("MCPError", "McpError"),
    "fastmcp.exceptions": ("ToolError", "ValidationError", "ResourceError", "NotFoundError"),
    "anthropic.lib.tools._beta_functions": ("ToolError",),
    "anthropic.lib.tools": ("ToolError",),
}
MOST_BASES = 64
_derived = {}


def exception(error, limits):
    """The exception to raise for a tool_raised error of the wire."""
    made = _member(error, limits, groups.Bounds(), 0)
    trace = _text(error.get("traceback"))
    if trace:
        made.__cause__ = errors.RemoteTraceback(trace)
    return made


def _member(error, limits, bounds, depth):
    """The exception of one document, its own members included."""
    message, hint = _text(error.get("message")), _text(error.get("hint"))
    mro = error.get("mro")
    names = [n for n in mro if isinstance(n, str)][:MOST_BASES] if isinstance(mro, list) else []
    group = groups.members(error.get("group"), lambda one, *where: _member(one, limits, *where), bounds, depth)
    if group is not None:
        return _group(names, message + "\n" + hint if hint else message, group)
    made = _first(names, message, _values(error.get("args"), list, limits))
    _fill(made, _values(error.get("state"), dict, limits))
    return _with_hint(made, message, hint) if hint else made


def _group(names, message, args):
    """An exception group of its members, whose text is message. Members are ordinary
    exceptions here, so that the group is one too, whatever the tool's own was."""
    own = names[0] if names else "builtins:ExceptionGroup"
    allowed = (_rebuildable(name, own) for name in names)
    cls = next((found for found in allowed if found is not None and issubclass(found, groups.GROUP)), groups.GROUP)
    if encode.class_name(cls) != own:
        cls = _derive(own, cls)
    made = cls(*args)
    return made if str(made) == message else _said(cls, message, args)


def _text(value):
    return value[:1 << 20] if isinstance(value, str) else ""


def _values(data, kind, limits):
    """Plain values of the exception, or None when they are not of that kind."""
    try:
        found = decode.decode(data, limits, classes.Resolver({}, []))
    except errors.SandboxUnavailable:
        return None
    return found if isinstance(found, kind) else None


def _fill(made, state):
    """Sets what a framework's exception carries beside its text."""
    cls = type(made)
    if state and cls.__name__ in FRAMEWORK.get(cls.__module__, ()):
        for name, value in state.items():
            if name in vars(made):
                setattr(made, name, value)


def _first(names, message, args):
    own = names[0] if names else "builtins:Exception"
    for name in names:
        cls = _rebuildable(name, own)
        if cls is None:
            continue
        exact = name == own
        made = _make(cls if exact else _derive(own, cls), message, args, exact)
        if made is not None:
            return made
    return _make(_derive(own, errors.SandboxedToolError), message, args, False)


def _rebuildable(name, own):
    module, _, qualname = name.partition(":")
    if module == "builtins":
        cls = getattr(builtins, qualname, None)
        if not isinstance(cls, type) or not issubclass(cls, Exception):
            return None
        return None if cls is Exception and own != name else cls
    found = sys.modules.get(module)
    cls = inspect.getattr_static(found, qualname, None) if found is not None else None
    if not isinstance(cls, type) or not issubclass(cls, Exception):
        return None
    if qualname in FRAMEWORK.get(module, ()):
        return cls
    plain = all(getattr(cls, part) is getattr(base, part) for part, base in (
        ("__init__", _builtin(cls)), ("__new__", _builtin(cls))))
    return cls if plain and owner.owns_class(cls) else None


def _builtin(cls):
    """The nearest builtin base of an exception class."""
    return next(base for base in cls.__mro__ if base.__module__ == "builtins")


def _make(cls, message, args, exact):
    """An instance whose text is message, or None when the class will not have it."""
    attempts = [tuple(args)] if args is not None else []
    attempts.append((message,))
    for attempt in attempts:
        try:
            made = cls(*attempt)
        except Exception:
            continue
        if str(made) == message or not exact:
            return made if str(made) == message else _said(cls, message, attempt)
    return None if exact else _said(cls, message, (message,))


def _said(cls, message, args):
    """An instance of a derived class whose text is message whatever its args."""
    speaking = type(cls.__name__, (cls,), {"__str__": lambda self: message, "__module__": cls.__module__})
    try:
        return speaking(*args)
    except Exception:
        return errors.SandboxedToolError(message)


def _derive(own, base):
    """A class with the name of the tool's own, derived from base."""
    if own == "builtins:Exception" and base is errors.SandboxedToolError:
        return base
    known = _derived.get((own, base))
    if known is None:
        module, _, qualname = own.partition(":")
        name = "".join(c for c in qualname.split(".")[-1] if c.isalnum() or c == "_")[:100] or "ToolError"
        known = type(name, (base,), {"__module__": module[:200], "sandboxed": True})
        if len(_derived) < 500:
            _derived[(own, base)] = known
    return known


def _with_hint(made, message, hint):
    """The exception with the hint at the end of its text."""
    text = message + "\n" + hint if message else hint
    try:
        made.args = (text,)
        if str(made) == text:
            return made
    except Exception:
        pass
    return _said(type(made), text, (text,))
