"""Pydantic AI: the function is replaced after the schema was built from it."""
import functools

from .. import patching, proxy

NAME = "pydantic-ai"


def patch(module):
    """Patches pydantic_ai.tools.Tool."""
    cls = patching.need(module, "Tool")
    patching.need_parameter(cls.__init__, "function")
    original = cls.__init__

    @functools.wraps(original)
    def init(self, function, *args, **kwargs):
        original(self, function, *args, **kwargs)
        schema = getattr(self, "function_schema", None)
        if schema is None or not hasattr(schema, "function"):
            raise patching.UnknownShape("Tool has no function_schema.function")
        stand_in = proxy.guard(schema.function, NAME, self.name)
        schema.function = stand_in
        if getattr(self, "function", None) is function:
            self.function = stand_in

    cls.__init__ = init
