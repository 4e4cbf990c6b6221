"""Typed JSON -> Python value, from an untrusted side: bounded, never executed.

A class is rebuilt only when the resolver given by the caller says so, and only
through its own validating constructor.
"""
import base64
import collections
import datetime
import decimal
import fractions
import json
import pathlib
import re
import uuid

from . import encode, errors

MOST_DIGITS = 4300
MOST_ARRAY_BYTES = 64 << 20


def parse(data, limit):
    """JSON bytes -> document. Refuses NaN, huge integers, depth and length."""
    if len(data) > limit:
        raise errors.ResultRefused("the sandbox's answer has %d bytes; the limit is %d" % (len(data), limit))
    try:
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant, parse_int=_short_int)
    except RecursionError:
        raise errors.ResultRefused("the sandbox's answer is nested too deeply")
    except (ValueError, UnicodeDecodeError):
        raise errors.ResultRefused("the sandbox's answer is not JSON")


def _no_constant(word):
    raise ValueError("not JSON: " + word)


def _short_int(text):
    if len(text) > MOST_DIGITS:
        raise ValueError("too many digits")
    return int(text)


class Decoder(object):
    """Decodes values within one budget of nodes and one of depth.

    resolve takes a kind (enum, dataclass, model, namedtuple) and a class's
    wire name, and gives the class or raises.
    """

    def __init__(self, limits, resolve):
        self.depth = int(limits["depth"])
        self.nodes = int(limits["nodes"])
        self.resolve = resolve

    def value(self, data, depth=0):
        """The Python value of typed JSON."""
        self.nodes -= 1
        if self.nodes < 0:
            raise errors.ResultRefused("the sandbox's answer has more parts than the limit allows")
        if depth > self.depth:
            raise errors.ResultRefused("the sandbox's answer is nested deeper than %d levels" % self.depth)
        if isinstance(data, list):
            return [self.value(item, depth + 1) for item in data]
        if not isinstance(data, dict):
            return data
        if "$t" not in data:
            return {key: self.value(item, depth + 1) for key, item in data.items()}
        try:
            return self._tagged(data["$t"], data, depth)
        except errors.SandboxUnavailable:
            raise
        except Exception as error:
            raise errors.ResultRefused("the sandbox's answer has a bad %.40r: %s" % (data["$t"], type(error).__name__))

    def _tagged(self, tag, data, depth):
        value = data.get("v")
        if tag in CONTAINERS:
            _expect(value, list)
            items = [self.value(item, depth + 1) for item in value]
            if tag in ("set", "frozenset"):
                _spread(items)
            return _deque(items, data.get("maxlen")) if tag == "deque" else CONTAINERS[tag](items)
        if tag in MAPPINGS:
            _expect(value, list)
            pairs = [(self.value(k, depth + 1), self.value(v, depth + 1)) for k, v in value]
            _spread([key for key, _ in pairs])
            return _defaultdict(pairs, data.get("f")) if tag == "defaultdict" else MAPPINGS[tag](pairs)
        if tag in SCALARS:
            return SCALARS[tag](value)
        if tag == "datetime":
            return _datetime(data)
        if tag in ("ndarray", "npscalar"):
            return _numpy(tag, data)
        if tag in BUILDERS:
            _expect(data.get("c"), str)
            return BUILDERS[tag](self, self.resolve(tag, data["c"]), data, depth)
        raise errors.ResultRefused("the sandbox's answer has an unknown type tag %.40r" % (tag,))

    def enum(self, cls, data, depth):
        """A member, by value."""
        return cls(self.value(data["v"], depth + 1))

    def dataclass(self, cls, data, depth):
        """An instance, by keyword."""
        _expect(data["v"], dict)
        return cls(**{k: self.value(v, depth + 1) for k, v in data["v"].items()})

    def namedtuple(self, cls, data, depth):
        """An instance, by position."""
        _expect(data["v"], list)
        return cls(*[self.value(v, depth + 1) for v in data["v"]])

    def model(self, cls, data, depth):
        """A pydantic model, validated again."""
        _expect(data["v"], list)
        values = {name: self.value(item, depth + 1) for name, item in data["v"]}
        made = _validated(cls, values)
        given = {n for n in data.get("set", ()) if n in values}
        if hasattr(made, "__pydantic_fields_set__"):
            object.__setattr__(made, "__pydantic_fields_set__", given)
        return made


def _validated(cls, values):
    fields = getattr(cls, "model_fields", None)
    if not hasattr(cls, "model_validate"):
        fields = getattr(cls, "__fields__", {})
    keyed = {}
    for name, item in values.items():
        alias = getattr(fields.get(name), "validation_alias", None) or getattr(fields.get(name), "alias", None)
        keyed[alias if isinstance(alias, str) else name] = item
    if hasattr(cls, "model_validate"):
        return cls.model_validate(keyed)
    return cls.parse_obj(keyed)


def _expect(value, kind):
    if not isinstance(value, kind):
        raise TypeError("not a " + kind.__name__)


def _deque(items, most):
    if most is not None and (type(most) is not int or len(items) > most):
        raise ValueError("not the length of a deque")
    return collections.deque(items, most)


def _defaultdict(pairs, factory):
    return collections.defaultdict(None if factory is None else encode.FACTORIES[factory], pairs)


def _bytes(value):
    _expect(value, str)
    return base64.b64decode(value.encode("ascii"), validate=True)


def _datetime(data):
    made = datetime.datetime.fromisoformat(data["v"])
    if data.get("zone"):
        try:
            import zoneinfo
            made = made.replace(tzinfo=zoneinfo.ZoneInfo(data["zone"]))
        except Exception:  # no such zone here: the fixed offset is as right
            pass
    return made.replace(fold=1) if data.get("fold") == 1 else made


def _numpy(tag, data):
    import sys
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise errors.ResultRefused("the sandbox returned a numpy array, and numpy is not imported here")
    dtype = numpy.dtype(data["dtype"])
    if dtype.kind not in "biufc" or not isinstance(data["dtype"], str):
        raise errors.ResultRefused("the sandbox returned an array of a type that is not plain")
    raw = _bytes(data["v"])
    if len(raw) > MOST_ARRAY_BYTES:
        raise errors.ResultRefused("the sandbox returned too large an array")
    flat = numpy.frombuffer(raw, dtype=dtype)
    return flat[0] if tag == "npscalar" else flat.reshape([int(n) for n in data["shape"]]).copy()


def _npstr(value):
    import sys
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise errors.ResultRefused("the sandbox returned a numpy string, and numpy is not imported here")
    return numpy.str_(_text(value))


def _text(value):
    return _bytes(value).decode("utf-8", "surrogatepass")


def _digits(value):
    _expect(value, str)
    if len(value) > MOST_DIGITS:
        raise ValueError("too many digits")
    return int(value)


def _float(value):
    if value not in ("nan", "inf", "-inf"):
        raise ValueError("not a special float")
    return float(value)


def _range(value):
    start, stop, step = [int(n) for n in value]
    return range(start, stop, step)


def _short(make):
    def build(value):
        _expect(value, str)
        if len(value) > MOST_DIGITS:
            raise ValueError("too long")
        return make(value)
    return build


_FRACTION = re.compile(r"-?\d+(/\d+)?\Z")
MOST_EXPONENT = 9999


def _fraction(text):
    """Only what str() of a fraction gives: "1E99999999" is one more form, and a number of that many digits."""
    if not _FRACTION.match(text):
        raise ValueError("not a fraction")
    return fractions.Fraction(text)


def _decimal(text):
    """A decimal whose conversion to an int stays affordable."""
    number = decimal.Decimal(text)
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and abs(exponent) > MOST_EXPONENT:
        raise ValueError("the exponent is out of bounds")
    return number


def _spread(keys):
    """Refuses keys that were chosen to have one hash: a table of them takes quadratic time to fill."""
    if len(keys) > MOST_ALIKE:
        counts = collections.Counter(hash(key) for key in keys)
        if max(counts.values()) > MOST_ALIKE:
            raise ValueError("too many keys have the same hash")


MOST_ALIKE = 64
CONTAINERS = {"tuple": tuple, "set": set, "frozenset": frozenset, "deque": _deque}
MAPPINGS = {"dict": dict, "ordereddict": collections.OrderedDict, "defaultdict": _defaultdict,
            "counter": lambda pairs: collections.Counter(dict(pairs))}
SCALARS = {
    "str": _text, "npstr": _npstr, "int": _digits, "float": _float,
    "bytes": _bytes, "bytearray": lambda v: bytearray(_bytes(v)),
    "date": _short(datetime.date.fromisoformat), "time": _short(datetime.time.fromisoformat),
    "timedelta": lambda v: datetime.timedelta(days=v[0], seconds=v[1], microseconds=v[2]),
    "decimal": _short(_decimal), "fraction": _short(_fraction), "uuid": _short(uuid.UUID),
    "complex": lambda v: complex(float(v[0]), float(v[1])), "range": _range,
    "path": _short(pathlib.Path), "purepath": _short(pathlib.PurePath),
}
BUILDERS = {"enum": Decoder.enum, "dataclass": Decoder.dataclass, "namedtuple": Decoder.namedtuple,
            "model": Decoder.model}


def decode(data, limits, resolve):
    """The Python value of typed JSON. Raises ResultRefused."""
    return Decoder(limits, resolve).value(data)
