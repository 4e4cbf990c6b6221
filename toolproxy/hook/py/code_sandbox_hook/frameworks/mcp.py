"""The MCP Python SDK and FastMCP: Tool.fn, after the tool was made from it."""
import functools

from .. import patching, proxy


def patch(module):
    """Patches the module's Tool or FunctionTool."""
    fast = module.__name__.startswith("fastmcp")
    name = "fastmcp" if fast else "mcp"
    cls = patching.need(module, "FunctionTool" if fast else "Tool")
    patching.need(cls, "from_function")
    if "fn" not in cls.model_fields:
        raise patching.UnknownShape("%s has no field fn" % cls.__name__)
    original = cls.from_function.__func__

    @functools.wraps(original)
    def from_function(tool_class, fn, *args, **kwargs):
        tool = original(tool_class, fn, *args, **kwargs)
        # FastMCP rewrites the function to inject its own objects; what is
        # guarded is what it will call, judged by what the user wrote.
        tool.fn = _stand_in(tool.fn, fn, name, tool.name)
        return tool

    cls.from_function = classmethod(from_function)


def _stand_in(rewritten, fn, framework, name):
    if rewritten is fn or getattr(rewritten, "__wrapped__", None) is not fn:
        return proxy.guard(rewritten, framework, name)
    return proxy.guard(fn, framework, name)
