"""LlamaIndex: FunctionTool's fn and async_fn. Its callbacks stay in the agent."""
import functools

from .. import patching, proxy

NAME = "llama-index"


def patch(module):
    """Patches llama_index.core.tools.function_tool.FunctionTool."""
    cls = patching.need(module, "FunctionTool")
    original = cls.__init__
    patching.need_parameter(original, "fn")
    patching.need_parameter(original, "async_fn")

    @functools.wraps(original)
    def init(self, fn=None, metadata=None, async_fn=None, *args, **kwargs):
        name = getattr(metadata, "name", None)
        original(self, proxy.guard(fn, NAME, name), metadata, proxy.guard(async_fn, NAME, name), *args, **kwargs)

    cls.__init__ = init
