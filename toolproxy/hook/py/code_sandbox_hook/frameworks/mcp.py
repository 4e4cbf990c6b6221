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
        # FastMCP may have rewritten the function to inject its own objects, so
        # what is guarded is what it will call.
        tool.fn = proxy.guard(tool.fn, name, tool.name)
        return tool

    cls.from_function = classmethod(from_function)

