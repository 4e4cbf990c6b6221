"""Remembers the tool functions of this process and gives each a name that the
other side finds again: (module, qualname, first line, ordinal).

The ordinal counts functions made from one place in the source, in the order
of registration, which is the order of import on both sides.
"""
import functools
import threading
import types
import weakref

from . import fingerprint


class Target(object):
    """One registered function: where it is, and what was decided about it."""

    def __init__(self, fn, framework, name):
        base = inner(fn)
        self.framework = framework
        self.name = name or getattr(base, "__name__", type(base).__name__)
        self.module = getattr(base, "__module__", None) or ""
        self.qualname = getattr(base, "__qualname__", self.name)
        self._code = fingerprint.code_of(base)
        self._hash = None
        self.line = self._code.co_firstlineno if self._code is not None else 0
        self.ordinal = 0
        self.partial = base is not fn and isinstance(fn, functools.partial)
        self.bound = fingerprint.bindings(base)
        self.instance = None
        self.drop = ()
        self.decision = None
        self.foreseen = False  # what a call of it would send as the target is known before
        self.audited = 0

    @property
    def code(self):
        """The hash of the code. Made when a call needs it: most tools are never called."""
        if self._hash is None:
            self._hash = fingerprint.hash_of(self._code)
        return self._hash

    @property
    def base(self):
        """What the ordinal counts within."""
        module = "__main__" if self.module == "__mp_main__" else self.module
        return (module, self.qualname, self.line)

    def wire(self):
        """The target as the protocol has it."""
        return {"module": self.base[0], "qualname": self.qualname, "line": self.line,
                "ordinal": self.ordinal, "code": self.code, "bindings": self.bound,
                "instance": self.instance, "partial": self.partial}


def inner(fn):
    """The function that a partial or a bound method stands for."""
    seen = 0
    while isinstance(fn, functools.partial) and seen < 16:
        fn, seen = fn.func, seen + 1
    if isinstance(fn, types.MethodType):
        return fn
    if not isinstance(fn, (types.FunctionType, types.BuiltinFunctionType)) and not isinstance(fn, type):
        call = getattr(fn, "__call__", None)
        if isinstance(call, types.MethodType):
            return call
    return fn


def _identity(fn):
    if isinstance(fn, types.MethodType):  # made anew at each access
        return (id(fn.__self__), id(fn.__func__))
    return id(fn)


class Registry(object):
    """The functions of this process. It keeps no run-time closure alive."""

    def __init__(self, keep):
        self._keep = keep
        self._lock = threading.Lock()
        self._targets = {}
        self._counts = {}
        self._by_key = {}
        self.version = 0

    def register(self, fn, framework, name=None):
        """The Target of fn; the same one when fn is registered again."""
        with self._lock:
            known = self._targets.get(_identity(fn))
            if known is not None and known[0]() == fn:
                return known[1]
        target, key = Target(fn, framework, name), _identity(fn)
        with self._lock:
            target.ordinal = self._counts.get(target.base, 0)
            self._counts[target.base] = target.ordinal + 1
            self._targets[key] = (self._reference(fn, key), target)
            if self._keep:
                self._by_key[target.base + (target.ordinal,)] = fn
            self.version += 1
        return target

    def _reference(self, fn, key):
        # The proxy's __wrapped__ keeps fn alive as long as the tool lives.
        if not self._keep:
            kind = weakref.WeakMethod if isinstance(fn, types.MethodType) else weakref.ref
            try:
                return kind(fn, lambda _: self._targets.pop(key, None))
            except TypeError:
                pass
        return lambda: fn

    def find(self, module, qualname, line, ordinal):
        """The function registered under the key, or None. Copies only."""
        return self._by_key.get((module, qualname, line, ordinal))

    def siblings(self, module, qualname):
        """All that is registered under a name. Copies only."""
        return [fn for key, fn in sorted(self._by_key.items(), key=lambda item: item[0][2:])
                if key[0] == module and key[1] == qualname]

    def targets(self):
        """Every Target that is alive, in order of registration."""
        with self._lock:
            return [target for _, target in self._targets.values()]

