"""CrewAI: functions in Tool and CrewStructuredTool, and the methods of the
user's own BaseTool classes. The usage counters stay in the agent."""
import functools

from .. import methods, patching, proxy

NAME = "crewai"
METHODS = ("_run", "_arun")


def patch(module):
    """Patches crewai.tools.base_tool or crewai.tools.structured_tool."""
    if module.__name__.endswith("structured_tool"):
        _functions(patching.need(module, "CrewStructuredTool"))
        return
    base = patching.need(module, "BaseTool")
    patching.need(base, "_run")
    methods.replace_subclass_hook(base, lambda cls: methods.guard_class(cls, METHODS, NAME))
    _functions(patching.need(module, "Tool"))


def _functions(cls):
    if "func" not in cls.model_fields:
        raise patching.UnknownShape("%s has no field func" % cls.__name__)
    original = cls.__init__

    @functools.wraps(original)
    def init(self, *args, **kwargs):
        if kwargs.get("func") is not None:
            kwargs["func"] = proxy.guard(kwargs["func"], NAME, kwargs.get("name"))
        original(self, *args, **kwargs)

    cls.__init__ = init
