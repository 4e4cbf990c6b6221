"""Which classes may be rebuilt from an answer, and where they are found.

In the agent: those that the tool's return annotation names (and what their
fields name), and the result classes of the frameworks. A class that is only
imported is not enough: its constructor may read what the agent alone may see.
"""
import enum
import fnmatch
import inspect
import sys

from . import encode, errors, injected

# Module patterns and class names of values that tools hand to their framework.
RESULTS = (
    ("mcp_types*", "*"), ("mcp.types", "*"),
    ("fastmcp.tools.base", "ToolResult"), ("fastmcp.tools.tool", "ToolResult"),
    ("pydantic_ai.messages", "*Url"), ("pydantic_ai.messages", "Binary*"), ("pydantic_ai.messages", "ToolReturn"),
    ("agents.tool", "ToolOutput*"),
    ("langchain_core.documents.base", "Document"),
    ("llama_index.core.schema", "*"), ("llama_index.core.base.llms.types", "*Block"),
    ("google.genai.types", "*"),
    ("smolagents.local_python_executor", "CodeOutput"),
)
STEERING = {"Command", "Send", "ToolMessage"}
KINDS = ("enum", "dataclass", "namedtuple", "model")


def named_by(fn):
    """The classes that fn's return annotation names: wire name -> class."""
    found = {}
    base = getattr(fn, "func", fn) if type(fn).__name__ == "partial" else fn
    try:
        hints = injected.resolved(base)
    except Exception:
        return found
    if "return" in hints:
        _collect(hints["return"], found, 0)
    return found


def _collect(annotation, found, depth):
    if depth > 12 or annotation is None or len(found) > 500:
        return
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        if _structured(annotation) and encode.class_name(annotation) not in found:
            found[encode.class_name(annotation)] = annotation
            for inner in _fields(annotation):
                _collect(inner, found, depth + 1)
    for part in getattr(annotation, "__args__", ()) or ():
        _collect(part, found, depth + 1)


def _structured(cls):
    if cls.__module__ == "builtins" or any(base.__name__ == "BaseSettings" for base in cls.__mro__):
        return False
    return issubclass(cls, enum.Enum) or any(hasattr(cls, name) for name in (
        "__dataclass_fields__", "model_fields", "__fields__", "_fields", "__total__"))


def _fields(cls):
    fields = getattr(cls, "model_fields", None)
    if isinstance(fields, dict):
        return [field.annotation for field in fields.values()]
    try:
        return list(injected.resolved(cls).values())
    except Exception:
        return []


class Resolver(object):
    """Finds classes for Decoder in the agent."""

    def __init__(self, named, allow):
        self.named = named
        self.allow = allow

    def __call__(self, kind, name):
        cls = self.named.get(name)
        if cls is None:
            cls = self._from_framework(name)
        if cls is None:
            short = name.split(":")[-1]
            if short in STEERING:
                raise errors.ResultRefused("the tool returned a %s, which steers the agent; allow it by name with "
                                           "allow-results" % short)
            raise errors.ResultRefused("the tool returned a %.200s, which its return annotation does not name; "
                                       "annotate the function with -> %.100s" % (name, short))
        return cls

    def _from_framework(self, name):
        module, _, qualname = name.partition(":")
        allowed = any(fnmatch.fnmatchcase(module, m) and fnmatch.fnmatchcase(qualname, q) for m, q in RESULTS)
        if qualname in self.allow:
            allowed = True
        return loaded_class(name) if allowed and (qualname not in STEERING or qualname in self.allow) else None


def loaded_class(name):
    """The class of a wire name when its module is imported already, else None."""
    module, _, qualname = name.partition(":")
    found = sys.modules.get(module)
    for part in qualname.split("."):
        if found is None or part.startswith("__"):
            return None
        found = inspect.getattr_static(found, part, None)
    return found if isinstance(found, type) and _structured(found) else None


def in_copy(kind, name):
    """Finds classes for Decoder in the copy: what the agent sends is its own."""
    module, _, qualname = name.partition(":")
    if module == "__main__" and "__mp_main__" in sys.modules:
        module = "__mp_main__"
    if module not in sys.modules:
        __import__(module)
    cls = loaded_class(module + ":" + qualname)
    if cls is None:
        raise errors.ResultRefused("the argument's class %.200s is not in the copy" % name)
    return cls
