"""smolagents: tool(), and the forward method of the user's own Tool classes."""
import functools
import sys

from .. import methods, patching, proxy

NAME = "smolagents"


def patch(module):
    """Patches smolagents.tools."""
    base = patching.need(module, "Tool")
    patching.need(base, "forward")
    methods.replace_subclass_hook(base, lambda cls: methods.guard_class(cls, ("forward",), NAME))
    original = patching.need(module, "tool")
    patching.need_parameter(original, "tool_function")

    @functools.wraps(original)
    def tool(tool_function):
        return original(proxy.guard(tool_function, NAME))

    module.tool = tool
    package = sys.modules.get("smolagents")
    if package is not None and getattr(package, "tool", None) is original:
        package.tool = tool
