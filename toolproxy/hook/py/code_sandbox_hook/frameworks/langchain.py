"""LangChain and LangGraph: functions in StructuredTool and Tool, and the
methods of the user's own BaseTool classes."""
import functools

from .. import methods, patching, proxy

NAME = "langchain"
METHODS = ("_run", "_arun")


def patch(module):
    """Patches one of langchain_core.tools.base, .structured and .simple."""
    if module.__name__.endswith(".base"):
        base = patching.need(module, "BaseTool")
        patching.need(base, "_run")
        methods.replace_subclass_hook(base, lambda cls: methods.guard_class(cls, METHODS, NAME))
    elif module.__name__.endswith(".structured"):
        _functions(patching.need(module, "StructuredTool"))
    else:
        _functions(patching.need(module, "Tool"))


def _functions(cls):
    """Hands the constructor proxies in place of func and coroutine."""
    for field in ("func", "coroutine"):
        if field not in cls.model_fields:
            raise patching.UnknownShape("%s has no field %s" % (cls.__name__, field))
    original = cls.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        for field in ("func", "coroutine"):
            if kwargs.get(field) is not None:
                kwargs[field] = proxy.guard(kwargs[field], NAME, kwargs.get("name"))
        if len(args) > 1:  # Tool(name, func, description)
            args = (args[0], proxy.guard(args[1], NAME, args[0])) + args[2:]
        original(self, *args, **kwargs)

    cls.__init__ = init
