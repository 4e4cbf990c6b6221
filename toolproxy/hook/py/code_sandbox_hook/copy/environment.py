"""The environment of a copy: every withheld name is there, with a dead value of
the same shape, and who reads one is remembered, so that a failure can name it."""
import os
import sys

REDACTED = "code-sandbox-redacted"
HOST = "redacted.invalid"
BULK = 3  # one place that reads more names than this reads the environment, not a name


def dead_value(shape):
    """A value that parses as the original did and means nothing."""
    kind = shape.get("shape") if isinstance(shape, dict) else ""
    if kind == "url":
        return "%s://%s:1/" % (str(shape.get("scheme") or "https")[:20], HOST)
    if kind == "json":
        return "[]" if shape.get("array") else "{}"
    if kind == "bool":
        return "no" if shape.get("word") == "no" else "false"
    return {"int": "0", "float": "0.0", "path": "/nonexistent/" + REDACTED, "empty": ""}.get(kind, REDACTED)


class Reads(object):
    """Which withheld names were read, and where."""

    def __init__(self):
        self.withheld = frozenset()
        self.weighty = set()  # those that may hold a key or say where a service is
        self.sites = {}

    def note(self, name, frame):
        """Remembers one read by the first frame outside of the mapping itself."""
        while frame is not None and frame.f_code.co_filename.endswith(("os.py", "_collections_abc.py")) or (
                frame is not None and frame.f_code.co_filename == __file__):
            frame = frame.f_back
        site = (frame.f_code, frame.f_lasti) if frame is not None else None
        names = self.sites.setdefault(site, set())
        if len(names) <= BULK:
            names.add(name)

    def names(self):
        """The names that were read one by one, sorted."""
        return sorted({n for names in self.sites.values() if len(names) <= BULK for n in names})

    def forget(self):
        """Begins anew: the call's reads are told from the import's."""
        self.sites = {}


READS = Reads()


class Environ(type(os.environ)):
    """os.environ, remembering who reads a withheld name."""

    def __getitem__(self, key):
        value = super(Environ, self).__getitem__(key)
        if key in READS.withheld:
            READS.note(key, sys._getframe(1))
        return value


def install(names):
    """Puts the dead values in. A name that has a value already keeps it."""
    withheld = []
    for name, shape in sorted(names.items()):
        if isinstance(name, str) and name and "=" not in name and "\0" not in name and name not in os.environ:
            os.environ[name] = dead_value(shape)
            withheld.append(name)
            if isinstance(shape, dict) and shape.get("shape") in ("opaque", "url", "json"):
                READS.weighty.add(name)
    READS.withheld = frozenset(withheld)
    os.environ.__class__ = Environ
