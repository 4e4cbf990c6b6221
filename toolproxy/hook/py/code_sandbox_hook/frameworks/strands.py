"""Strands Agents: DecoratedFunctionTool, whose function is replaced last."""
import functools

from .. import patching, proxy

NAME = "strands"


def patch(module):
    """Patches strands.tools.decorator.DecoratedFunctionTool."""
    cls = patching.need(module, "DecoratedFunctionTool")
    original = cls.__init__
    patching.need_parameter(original, "tool_func")

    @functools.wraps(original)
    def init(self, tool_name, tool_spec, tool_func, metadata):
        original(self, tool_name, tool_spec, proxy.guard(tool_func, NAME, tool_name), metadata)

    cls.__init__ = init
