"""Which parameters a framework fills by itself.

They carry the agent's own objects (clients, sessions, callbacks), so a tool
that takes one cannot leave the agent. Recognised by the annotation's class,
by a marker in Annotated, by a default that is a dependency, or by name where
the framework goes by name.
"""
import inspect
import types
import typing

# Top-level package -> class names.
CONTEXTS = dict((
    ("agents", ("RunContextWrapper", "ToolContext", "AgentHookContext")),
    ("pydantic_ai", ("RunContext",)),
    ("mcp", ("Context", "ServerSession", "Resolve", "ServerRequestContext")),
    ("fastmcp", ("Context", "Depends", "Dependency", "CurrentContext", "Progress")),
    ("docket", ("Depends", "Dependency", "Progress", "CurrentDocket")),
    ("uncalled_for", ("Depends", "Dependency")),
    ("langchain_core", ("RunnableConfig", "InjectedToolArg", "InjectedToolCallId", "BaseCallbackManager",
                        "CallbackManager", "CallbackManagerForToolRun", "AsyncCallbackManagerForToolRun")),
    ("langgraph", ("InjectedState", "InjectedStore", "ToolRuntime", "Runtime", "BaseStore")),
    ("langchain", ("InjectedState", "InjectedStore", "ToolRuntime")),
    ("workflows", ("Context",)),
    ("llama_index", ("Context",)),
    ("google", ("ToolContext", "Context", "CallbackContext", "ReadonlyContext", "InvocationContext",
                "LiveRequestQueue")),
    ("strands", ("ToolContext", "Agent")),
    ("semantic_kernel", ("Kernel", "KernelArguments")),
    ("autogen_core", ("CancellationToken",)),
    ("agno", ("RunContext", "Agent", "Team")),
))
NAMES = {
    "google-adk": ("tool_context", "input_stream"),
    "strands": ("agent",),
    "langchain": ("callbacks", "run_manager"),
}
# Left out of the call, as if the framework had passed the default None.
OPTIONAL = {"langchain": ("run_manager", "callbacks")}


def find(fn, framework, hinted):
    """The injected parameters of fn: (refused names, names that are left out).
    hinted is what hints says of fn."""
    empty, refused, dropped = inspect.Parameter.empty, [], []
    for name, written, default in _parameters(fn):
        annotation = hinted.get(name, written)
        by_name = name in NAMES.get(framework, ()) and not _plain(annotation)
        if not (by_name or _is_context(annotation) or default is not empty and _is_context(type(default))):
            continue
        if name in OPTIONAL.get(framework, ()) and default is None:
            dropped.append(name)
        else:
            refused.append(name)
    return refused, tuple(dropped)


def _parameters(fn):
    """Name, annotation and default of each parameter. A plain function's are read
    from the function itself, which takes a tenth of the time of a signature."""
    empty = inspect.Parameter.empty
    if type(fn) is not types.FunctionType or "__wrapped__" in fn.__dict__ or "__signature__" in fn.__dict__:
        try:
            return [(n, p.annotation, p.default) for n, p in inspect.signature(fn).parameters.items()]
        except (TypeError, ValueError):
            return []
    code = fn.__code__
    more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount + more]
    given = fn.__defaults__ or ()
    defaults = dict(zip(names[code.co_argcount - len(given):code.co_argcount], given), **(fn.__kwdefaults__ or {}))
    return [(name, empty, defaults.get(name, empty)) for name in names]


def _plain(annotation):
    return annotation in (str, int, float, bool, list, dict)


def hints(fn):
    """The annotations, resolved where they can be."""
    base = getattr(fn, "func", fn) if type(fn).__name__ == "partial" else fn
    if not inspect.isroutine(base):
        base = getattr(base, "__call__", base)
    try:
        written = base.__annotations__ if type(base) is types.FunctionType else {"": ""}
        if all(value is None or isinstance(value, type) and not hasattr(value, "__origin__") for value in written.values()):
            return dict(written)  # nothing to resolve
        return resolved(base)
    except Exception:  # a forward reference to nothing: the raw texts will do
        return dict(getattr(base, "__annotations__", None) or {})


def resolved(fn):
    """get_type_hints with Annotated kept, also on 3.8 where that is not an option."""
    try:
        return typing.get_type_hints(fn, include_extras=True)
    except TypeError:
        return typing.get_type_hints(fn)


def _is_context(annotation, depth=0):
    if depth > 6 or annotation is inspect.Parameter.empty:
        return False
    if isinstance(annotation, str):
        return _text_names_context(annotation)
    if isinstance(annotation, type) and not hasattr(annotation, "__origin__"):
        return any(_listed(base) for base in annotation.__mro__)
    if _listed(type(annotation)):
        return True
    parts = list(getattr(annotation, "__args__", ()) or ()) + list(getattr(annotation, "__metadata__", ()) or ())
    origin = getattr(annotation, "__origin__", None)
    if isinstance(origin, type):
        parts.append(origin)
    return any(_is_context(part, depth + 1) for part in parts if part is not None and not isinstance(part, str))


def _listed(cls):
    top = (getattr(cls, "__module__", "") or "").split(".")[0]
    return cls.__name__ in CONTEXTS.get(top, ())


def _text_names_context(text):
    last = text.split("[")[0].split(".")[-1].strip()
    return any(last in names for names in CONTEXTS.values() if last not in ("Context", "Agent", "Kernel", "Team"))


def returns_command(hinted):
    """The name of a class in the return annotation that steers the agent's graph, or "".
    hinted is what hints says of the function."""
    for name in ("Command", "ToolMessage", "Send"):
        if _mentions(hinted.get("return"), name):
            return name
    return ""


def _mentions(annotation, name, depth=0):
    if annotation is None or depth > 6:
        return False
    if isinstance(annotation, str):
        return annotation.split("[")[0].split(".")[-1].strip() == name
    top = (getattr(annotation, "__module__", "") or "").split(".")[0]
    if getattr(annotation, "__name__", "") == name and top in ("langgraph", "langchain_core"):
        return True
    parts = list(getattr(annotation, "__args__", ()) or ())
    origin = getattr(annotation, "__origin__", None)
    if origin is not None:
        parts.append(origin)
    return any(_mentions(part, name, depth + 1) for part in parts)
