"""Google ADK: FunctionTool. It calls plain functions on the event loop and
awaits what they return, so the proxy returns an awaitable there."""
import functools

from .. import patching, proxy

NAME = "google-adk"


def patch(module):
    """Patches google.adk.tools.function_tool.FunctionTool."""
    cls = patching.need(module, "FunctionTool")
    original = cls.__init__
    patching.need_parameter(original, "func")

    @functools.wraps(original)
    def init(self, func, *args, **kwargs):
        original(self, proxy.guard(func, NAME, awaits=True), *args, **kwargs)

    cls.__init__ = init
