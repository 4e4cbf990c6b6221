"""What a framework gets in the copy: the function itself, with one door.

While the copy is made ready nothing may call a tool: a program without a main
guard has then begun to run its agent, and its import ends here.
"""
import functools

from .. import proxy
from . import guards


class Gate(object):
    """Runs the original, unless the copy is still being made ready."""

    def __init__(self, fn):
        self.fn = fn

    def call(self, args, kwargs):
        """Blocking."""
        guards.stop_if_preparing("the program began to call its tools")
        return self.fn(*args, **kwargs)

    async def call_async(self, args, kwargs):
        """Awaited."""
        guards.stop_if_preparing("the program began to call its tools")
        return await self.fn(*args, **kwargs)

    def stream(self, args, kwargs):
        """A generator's items."""
        guards.stop_if_preparing("the program began to call its tools")
        return (yield from self.fn(*args, **kwargs))

    async def stream_async(self, args, kwargs):
        """An asynchronous generator's items."""
        guards.stop_if_preparing("the program began to call its tools")
        items = self.fn(*args, **kwargs)
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()


def wrap(fn, target):
    """The gate of fn. A partial stays as it is: it has a type to keep."""
    if isinstance(fn, functools.partial):
        return fn
    return proxy.make(fn, Gate(fn))
