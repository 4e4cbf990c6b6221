"""The Anthropic SDK's tool runner: BaseFunctionTool."""
import functools

from .. import patching, proxy

NAME = "anthropic"


def patch(module):
    """Patches anthropic.lib.tools._beta_functions.BaseFunctionTool."""
    cls = patching.need(module, "BaseFunctionTool")
    original = cls.__init__
    patching.need_parameter(original, "func")

    @functools.wraps(original)
    def init(self, func, **kwargs):
        original(self, proxy.guard(func, NAME, kwargs.get("name")), **kwargs)

    cls.__init__ = init
