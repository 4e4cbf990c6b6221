"""OpenAI Agents SDK: function_tool, in both of its forms."""
import functools
import sys

from .. import patching, proxy

NAME = "openai-agents"


def patch(module):
    """Patches agents.tool.function_tool, and the name where it is imported already."""
    original = patching.need(module, "function_tool")
    patching.need_parameter(original, "func")
    patching.need_parameter(original, "name_override")

    @functools.wraps(original)
    def function_tool(func=None, **kwargs):
        name = kwargs.get("name_override")
        if func is not None:
            return original(proxy.guard(func, NAME, name), **kwargs)
        decorate = original(**kwargs)
        return lambda real: decorate(proxy.guard(real, NAME, name))

    module.function_tool = function_tool
    package = sys.modules.get("agents")
    if package is not None and getattr(package, "function_tool", None) is original:
        package.function_tool = function_tool
