"""Python value -> typed JSON. Never pickle.

What JSON has stands as itself; everything else is {"$t": tag, "v": ...}. What
has no tag is refused with a sentence, and so is what is too large or deep. A
subclass never travels as its base: the function would get another behaviour
than the caller gave.
"""
import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import math
import pathlib
import sys
import uuid

from . import errors

LARGEST_PLAIN = 2 ** 53
# Subclasses that frameworks hand out in place of plain data: what they add is for
# old callers (text()), for a notebook's display, or for merging the chunks of a stream.
AS_BASE = {"langchain_core.messages.base:TextAccessor": str, "smolagents.agent_types:AgentText": str,
           "langchain_core.runnables.utils:AddableDict": dict}
# What a defaultdict may make of a missing key, by its name on the wire.
FACTORIES = {cls.__name__: cls for cls in (bool, bytes, dict, float, frozenset, int, list, set, str, tuple)}


class Encoder(object):
    """Encodes values within one budget of nodes and one of depth."""

    def __init__(self, limits):
        self.depth = int(limits["depth"])
        self.nodes = int(limits["nodes"])

    def value(self, value, depth=0):
        """The typed JSON of value, as Python lists, dicts and scalars."""
        self.nodes -= 1
        if self.nodes < 0:
            raise errors.CannotSend("cannot send a value of more parts than the limit allows", bound=True)
        if depth > self.depth:
            raise errors.CannotSend("cannot send a value nested deeper than %d levels" % self.depth, bound=True)
        kind = type(value)
        if value is None or kind is bool:
            return value
        simple = SIMPLE.get(kind)
        if simple is not None:
            return simple(value)
        if kind in (list, tuple, set, frozenset, collections.deque):
            items = [self.value(item, depth + 1) for item in value]
            return items if kind is list else _sequence(value, kind, items)
        if kind in MAPPINGS:
            return self._mapping(value, MAPPINGS[kind], depth)
        return self._other(value, kind, depth)

    def _mapping(self, value, tag, depth):
        if tag == "dict" and all(type(key) is str and not _surrogates(key) for key in value) and "$t" not in value:
            return {key: self.value(item, depth + 1) for key, item in value.items()}
        told = {"$t": tag, "v": [[self.value(k, depth + 1), self.value(v, depth + 1)] for k, v in value.items()]}
        if tag == "defaultdict":
            told["f"] = _factory(value.default_factory)
        return told

    def _other(self, value, kind, depth):
        if isinstance(value, enum.Enum):
            return {"$t": "enum", "c": class_name(kind), "v": self.value(value.value, depth + 1)}
        if _is_model(kind):
            return self._model(value, kind, depth)
        if hasattr(kind, "__dataclass_fields__"):
            fields = {f.name: self.value(getattr(value, f.name), depth + 1)
                      for f in dataclasses.fields(value) if f.init and hasattr(value, f.name)}
            return {"$t": "dataclass", "c": class_name(kind), "v": fields}
        if isinstance(value, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
            return {"$t": "namedtuple", "c": class_name(kind), "v": [self.value(i, depth + 1) for i in value]}
        array = _numpy(value)
        if array is not None:
            return array
        base = AS_BASE.get(class_name(kind))
        if base is not None and isinstance(value, base):
            return self.value(base(value), depth)
        raise _unsendable(kind)

    def _model(self, value, kind, depth):
        values = dict(vars(value))
        values.update(getattr(value, "__pydantic_extra__", None) or {})
        given = getattr(value, "__pydantic_fields_set__", None) or getattr(value, "__fields_set__", ())
        return {"$t": "model", "c": class_name(kind), "set": sorted(given),
                "v": [[name, self.value(item, depth + 1)] for name, item in values.items()]}


def class_name(cls):
    """A class's name on the wire: module:qualname, the main module always __main__."""
    module = "__main__" if cls.__module__ == "__mp_main__" else cls.__module__
    return module + ":" + cls.__qualname__


def _unsendable(kind):
    """The refusal of a class that has no tag. It says the base where that would do."""
    name = "%s.%s" % (kind.__module__, kind.__qualname__)
    for base in (str, bytes, dict, list, tuple, int, float, pathlib.PurePath):
        if issubclass(kind, base):
            return errors.CannotSend(
                "cannot send a %s across the sandbox's border: it is a subclass of %s, whose own behaviour would be lost on "
                "the way; use %s(value), a dataclass or a pydantic model" % (name, base.__name__, base.__name__))
    if kind is memoryview:
        return errors.CannotSend("cannot send a memoryview across the sandbox's border: the memory that it shows is not "
                                 "there; use bytes(value)")
    return errors.CannotSend("cannot send a %s across the sandbox's border; use plain data, a dataclass or a pydantic "
                             "model" % name)


def _sequence(value, kind, items):
    told = {"$t": kind.__name__, "v": items}
    if kind is collections.deque and value.maxlen is not None:
        told["maxlen"] = value.maxlen
    return told


def _factory(factory):
    """The name of what a defaultdict calls for a missing key, or None. A function has none."""
    if factory is None:
        return None
    name = getattr(factory, "__name__", "")
    if FACTORIES.get(name) is not factory:
        raise errors.CannotSend("cannot send a collections.defaultdict of %.200r across the sandbox's border: its factory is "
                                "not one of %s; use dict(value)" % (factory, ", ".join(sorted(FACTORIES))))
    return name


def _is_model(kind):
    return hasattr(kind, "model_fields") and hasattr(kind, "model_validate") or (
        hasattr(kind, "__fields__") and hasattr(kind, "parse_obj"))


def _surrogates(text):
    return any("\ud800" <= c <= "\udfff" for c in text) if not text.isascii() else False


def _text(value):
    if _surrogates(value):
        return {"$t": "str", "v": _b64(value.encode("utf-8", "surrogatepass"))}
    return value


def _integer(value):
    if -LARGEST_PLAIN <= value <= LARGEST_PLAIN:
        return value
    if value.bit_length() > 13000:
        raise errors.CannotSend("cannot send an integer of more than 3900 digits", bound=True)
    return {"$t": "int", "v": str(value)}


def _real(value):
    return value if math.isfinite(value) else {"$t": "float", "v": repr(value)}


def _b64(data):
    return base64.b64encode(data).decode("ascii")


def _datetime(value):
    out = {"$t": "datetime", "v": value.isoformat()}
    zone = getattr(value.tzinfo, "key", None)
    if zone:
        out["zone"] = zone
    if value.fold:
        out["fold"] = 1
    return out


def _tagged(tag, convert=str):
    return lambda value: {"$t": tag, "v": convert(value)}


SIMPLE = {
    str: _text, int: _integer, float: _real,
    bytes: _tagged("bytes", _b64), bytearray: _tagged("bytearray", lambda v: _b64(bytes(v))),
    datetime.datetime: _datetime, datetime.date: _tagged("date", lambda v: v.isoformat()),
    datetime.time: _tagged("time", lambda v: v.isoformat()),
    datetime.timedelta: _tagged("timedelta", lambda v: [v.days, v.seconds, v.microseconds]),
    decimal.Decimal: _tagged("decimal"), fractions.Fraction: _tagged("fraction"), uuid.UUID: _tagged("uuid"),
    complex: _tagged("complex", lambda v: [repr(v.real), repr(v.imag)]),
    range: _tagged("range", lambda v: [v.start, v.stop, v.step]),
    type(pathlib.Path()): _tagged("path"), type(pathlib.PurePath()): _tagged("purepath"),
}
MAPPINGS = {dict: "dict", collections.OrderedDict: "ordereddict", collections.Counter: "counter",
            collections.defaultdict: "defaultdict"}


def _numpy(value):
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    if type(value) is numpy.ndarray and value.dtype.kind in "biufc":
        return {"$t": "ndarray", "dtype": value.dtype.str, "shape": list(value.shape),
                "v": _b64(numpy.ascontiguousarray(value).tobytes())}
    if isinstance(value, numpy.generic) and value.dtype.kind in "biufc":
        return {"$t": "npscalar", "dtype": value.dtype.str, "v": _b64(value.tobytes())}
    if type(value) is numpy.str_:
        return {"$t": "npstr", "v": _b64(str(value).encode("utf-8", "surrogatepass"))}
    return None


def encode(value, limits):
    """The typed JSON of value. Raises CannotSend."""
    return Encoder(limits).value(value)


def dump(document, limit, what):
    """A JSON document as UTF-8 bytes, bounded."""
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
    if len(data) > limit:
        raise errors.CannotSend("cannot send %s of %d bytes: the limit is %d" % (what, len(data), limit), bound=True)
    return data
