"""A short hash that says whether two functions are the same code.

Code, constants and names count; line numbers inside and file names do not.
What a closure or default holds is compared apart, and only plain values that
do not come from the environment: those differ in a copy by design.
"""
import hashlib
import os
import types

PLAIN = (int, float, bool, type(None))
LONGEST_TEXT = 20


def code_of(fn):
    """The code of a function or method, or None."""
    return getattr(getattr(fn, "__func__", fn), "__code__", None)


def code_hash(fn):
    """The hash of fn's code, or "" when it has none."""
    return hash_of(code_of(fn))


def hash_of(code):
    """The hash of a code object, or "" for None."""
    if code is None:
        return ""
    digest = hashlib.sha256()
    _feed(digest, code)
    return digest.hexdigest()[:24]


def _feed(digest, code):
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount,
                        code.co_kwonlyargcount, code.co_flags)).encode("utf-8", "replace"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _feed(digest, constant)
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(map(repr, constant))).encode("utf-8", "replace"))
        else:
            digest.update(repr(constant).encode("utf-8", "replace"))


def bindings(fn, environment=None):
    """Hashes of what fn's closure and defaults hold, None where it cannot tell."""
    fn = getattr(fn, "__func__", fn)
    values = list(getattr(fn, "__defaults__", None) or ())
    values += [value for _, value in sorted((getattr(fn, "__kwdefaults__", None) or {}).items())]
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # an empty cell
            values.append(cell)
    if not values:  # most functions: the environment need not be read
        return []
    known = set((environment if environment is not None else os.environ).values())
    return [_bound(value, known) for value in values]


def _bound(value, environment):
    if isinstance(value, types.FunctionType):
        return "function:" + value.__qualname__
    if type(value) in PLAIN or (type(value) is str and len(value) <= LONGEST_TEXT):
        if str(value) in environment:
            return None
        return hashlib.sha256(repr(value).encode("utf-8", "replace")).hexdigest()[:12]
    return None


def same_bindings(mine, theirs):
    """True unless two values that can be compared differ."""
    if len(mine) != len(theirs):
        return False
    return all(a is None or b is None or a == b for a, b in zip(mine, theirs))
