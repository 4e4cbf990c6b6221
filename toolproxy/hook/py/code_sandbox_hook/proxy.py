"""The stand-in that a framework gets for a tool function.

It is a real function with the original's name, signature and annotations, of
the same kind (plain, coroutine, generator, asynchronous generator); only what
happens in its body is elsewhere.
"""
import functools
import inspect
import sys
import types

from . import decide, errors, exchange, policy as policies, registry, remote, runtime, start, warn

_MARK = "__code_sandbox__"


def guard(fn, framework, name=None, awaits=False, text_tool=False):
    """What to hand to the framework in place of fn: a proxy, or fn itself.

    awaits says that the framework awaits what a plain function returns, so that
    a call on the event loop need not block it."""
    if fn is None or not callable(fn) or isinstance(fn, type) or is_proxy(fn):
        return fn
    if _unbound_method(fn):
        from . import methods
        return methods.guard_method(fn, framework, name, text_tool)
    state = runtime.state()
    if state.side == start.COPY:
        from .copy import gate
        return gate.wrap(fn, state.registry.register(fn, framework, name))
    target = state.registry.register(fn, framework, name)
    if target.decision is None:
        target.decision = decide.decide(fn, target, text_tool)
        target.foreseen = target.decision.where == decide.SANDBOXED
    if state.greeted == -1:
        state.greeted = -2
        remote.greet()
    if target.decision.where == decide.STAYS:
        return fn
    return _of_partial(fn, target, awaits) if target.partial else make(fn, Run(fn, target), awaits)


def _unbound_method(fn):
    """True for a function that a decorator met in the body of a class."""
    if not isinstance(fn, types.FunctionType) or "." not in fn.__qualname__:
        return False
    names = fn.__code__.co_varnames[:fn.__code__.co_argcount]
    return names[:1] == ("self",) and not fn.__qualname__.rpartition(".")[0].endswith("<locals>")


def is_proxy(fn):
    """True for what guard made, and for nothing that merely copied its attributes."""
    fn = getattr(fn, "__func__", fn)  # a proxied method, bound
    mark = getattr(fn, _MARK, None)
    return mark is not None and mark[0] is getattr(fn, "__code__", None) and mark[1] == id(fn)


def mark(fn):
    """Marks a function as ours."""
    setattr(fn, _MARK, (fn.__code__, id(fn)))
    return fn


def make(fn, run, awaits=False):
    """A proxy dressed as fn that runs run. Its kind is fn's kind."""
    kind = kind_of(fn)
    if kind == "asyncgen":
        async def proxy(*args, **kwargs):
            items = run.stream_async(args, kwargs)
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()
    elif kind == "generator":
        def proxy(*args, **kwargs):
            return (yield from run.stream(args, kwargs))
    elif kind == "coroutine":
        async def proxy(*args, **kwargs):
            return await run.call_async(args, kwargs)
    elif awaits:
        def proxy(*args, **kwargs):
            return run.call_async(args, kwargs) if _on_loop() else run.call(args, kwargs)
    else:
        def proxy(*args, **kwargs):
            return run.call(args, kwargs)
    return mark(_dressed(proxy, fn))


def _dressed(proxy, fn):
    functools.update_wrapper(proxy, fn)
    if not isinstance(fn, (types.FunctionType, types.MethodType)):
        base = registry.inner(fn)
        proxy.__name__ = getattr(fn, "__name__", None) or type(fn).__name__
        proxy.__qualname__ = getattr(base, "__qualname__", proxy.__name__)
        try:
            proxy.__signature__ = inspect.signature(fn)
        except (TypeError, ValueError):
            pass
    return proxy


def kind_of(fn):
    """What calling fn gives: "asyncgen", "generator", "coroutine" or "plain"."""
    base = registry.inner(fn)
    if inspect.isasyncgenfunction(base):
        return "asyncgen"
    if inspect.isgeneratorfunction(base):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(base) else "plain"


def _on_loop():
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _of_partial(fn, target, awaits):
    """A partial of a proxy. What fn binds stays out of the call: the copy's own
    partial binds it there."""
    args, keywords, base = (), {}, fn
    while isinstance(base, functools.partial):
        args, keywords, base = base.args + args, dict(base.keywords, **keywords), base.func

    def unbound(given_args, given_kwargs):
        left = {k: v for k, v in given_kwargs.items() if k not in keywords or keywords[k] is not v}
        return given_args[len(args):], left

    return functools.partial(make(base, Run(base, target, skip=unbound), awaits), *args, **keywords)


class Run(object):
    """Decides at each call, by the policy of the moment, and runs it."""

    def __init__(self, fn, target, skip=None, instance=None):
        self.fn = fn
        self.target = target
        self.skip = skip
        self.instance = instance

    def here(self):
        """True when this call runs in the agent. Raises when it runs nowhere."""
        policy, target = runtime.policy(), self.target
        if policy.mode == policies.OFF:
            return True
        if policy.mode == policies.AUDIT:
            self._audit(policy)
            return True
        if policy.excluded(target.name, target.base[0], target.qualname):
            warn.in_agent(target, "the settings exclude it")
            return True
        decision = target.decision
        if decision.where == decide.REFUSED:
            if decision.context and policy.context == policies.INLINE:
                warn.in_agent(target, "it takes an object of the framework, and tools-context is inline")
                return True
            error = errors.Unsandboxable(decision.why, reason=decision.reason)
            warn.refused(target, error)
            raise error
        return False

    def _audit(self, policy):
        """Counts a call that enforce mode would run elsewhere or nowhere."""
        target = self.target
        inline = target.decision.context and policy.context == policies.INLINE
        if not inline and not policy.excluded(target.name, target.base[0], target.qualname):
            runtime.state().audit.count(target)

    def making(self, args, kwargs, stream=False):
        """A function that builds the exchange.Call of this call."""
        if self.skip is not None:
            args, kwargs = self.skip(args, kwargs)
        kwargs = {k: v for k, v in kwargs.items() if k not in self.target.drop}
        return lambda: exchange.Call(self.target, self.fn, args, kwargs, stream, self.instance)

    def call(self, args, kwargs):
        """Blocking."""
        remote.greet()
        if self.here():
            return self.fn(*args, **kwargs)
        return remote.call(self.making(args, kwargs))

    async def call_async(self, args, kwargs):
        """Awaited."""
        await remote.greet_async()
        if self.here():
            value = self.fn(*args, **kwargs)
            return await value if inspect.isawaitable(value) else value
        return await remote.call_async(self.making(args, kwargs))

    def stream(self, args, kwargs):
        """A generator's items."""
        remote.greet()
        if self.here():
            return (yield from self.fn(*args, **kwargs))
        return (yield from remote.stream(self.making(args, kwargs, stream=True)))

    async def stream_async(self, args, kwargs):
        """An asynchronous generator's items."""
        await remote.greet_async()
        items = self.fn(*args, **kwargs) if self.here() else remote.stream_async(
            self.making(args, kwargs, stream=True))
        try:
            async for item in items:
                yield item
        finally:
            await items.aclose()
