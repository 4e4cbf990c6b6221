"""Which module globals a call changed.

Only plain data counts, and the plain attributes of the user's own objects and
classes: caches, loggers, locks and clients change by nature.
"""
import collections
import datetime
import decimal
import enum
import sys
import types

from .. import owner

PLAIN = (int, float, complex, bool, str, bytes, type(None), datetime.datetime, datetime.date, datetime.timedelta,
         decimal.Decimal)
SEQUENCES = (list, tuple, collections.deque)
SETS = (set, frozenset)
BUDGET = 20000
DEEPEST = 6
MOST_NAMES = 20


class _Spent(Exception):
    """The budget is used up."""


class Snapshot(object):
    """The plain data in the globals of the user's modules, as hashes.

    One taken after a call looks at the same modules as the one before, and at
    those that came since: a program has a thousand that are not the user's."""

    def __init__(self, before=None):
        self.left = BUDGET
        self.marks = {}
        self.known = frozenset(sys.modules) if before is None else before.known
        self.own = list(owner.own_modules()) if before is None else before.own + list(owner.own_modules(before.known))
        try:
            for name, module in self.own:
                if name == "__main__" :
                    continue
                self._module("__main__" if name == "__mp_main__" else name, vars(module))
        except _Spent:
            pass

    def _module(self, module, variables):
        for name, value in list(variables.items()):
            if name.startswith("__"):
                continue
            mark = self._top(value, module)
            if mark is not None:
                self.marks[module + ":" + name] = mark

    def _top(self, value, module):
        if isinstance(value, type):
            if value.__module__ not in (module, "__mp_main__") or issubclass(value, enum.Enum):
                return None
            data = {k: v for k, v in vars(value).items()
                    if not k.startswith("__") and isinstance(v, (dict,) + SEQUENCES[:1] + SETS[:1] + PLAIN)}
            return self._mark(data, 1)
        return self._mark(value, 0)

    def _mark(self, value, depth):
        """A hash of plain data, or None for what does not count."""
        self.left -= 1
        if self.left < 0:
            raise _Spent
        if isinstance(value, PLAIN):
            return hash((type(value).__name__, value))
        if depth > DEEPEST:
            return 0
        if isinstance(value, dict):
            return hash(("d",) + tuple((self._mark(k, depth + 1), self._mark(v, depth + 1))
                                       for k, v in list(value.items())))
        if isinstance(value, SEQUENCES):
            return hash(("l",) + tuple(self._mark(item, depth + 1) for item in list(value)))
        if isinstance(value, SETS):
            return hash(("s", frozenset(self._mark(item, depth + 1) for item in list(value))))
        if _own_object(value):
            return hash(("o", self._mark(dict(vars(value)), depth + 1)))
        return None if depth == 0 else 0


def _own_object(value):
    return hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, types.FunctionType)) \
        and owner.owns_class(type(value))


def changed(before, after):
    """The names of globals that differ, "module:name", at most MOST_NAMES."""
    names = set(before.marks) | set(after.marks)
    found = [n for n in sorted(names) if before.marks.get(n) != after.marks.get(n)]
    return found[:MOST_NAMES]
