"""Runs the function once and describes how it ended."""
import asyncio
import inspect
import json
import os
import random
import sys
import traceback

from .. import classes, decode, encode, errors, groups, owner, policy as policies, rebuild
from . import environment, prepare, state

LONGEST_TRACE = 32000
LONGEST_MESSAGE = 65536


class Caller(object):
    """One call: the request, the function, and where frames go."""

    def __init__(self, request, prepared, send):
        self.request = request
        self.prepared = prepared
        self.send = send
        self.limits = dict(policies.DEFAULT_LIMITS)
        for name, value in (request.get("limits") or {}).items():
            if name in self.limits and isinstance(value, (int, float)):
                self.limits[name] = value

    def run(self, fn, before):
        """Calls fn and sends the last frame."""
        try:
            args, kwargs = self._arguments()
        except errors.SandboxUnavailable as error:
            return self.refuse("unsandboxable", "argument", str(error), "no")
        environment.READS.forget()
        try:
            value = self._value(fn, args, kwargs)
        except errors.CannotSend as error:  # an item of a stream
            return self._unsendable(error)
        except BaseException as error:
            return self._raised(error, before)
        return self._returned(value, before)

    def _arguments(self):
        decoder = decode.Decoder(self.limits, classes.in_copy)
        args = [decoder.value(a) for a in self.request.get("args") or []]
        return args, {k: decoder.value(v) for k, v in (self.request.get("kwargs") or {}).items()}

    def _value(self, fn, args, kwargs):
        value = fn(*args, **kwargs)
        if inspect.isasyncgen(value):
            return asyncio.run(self._async_items(value))
        if inspect.isgenerator(value) and self.request.get("stream"):
            return self._items(value)
        if inspect.isawaitable(value):
            return asyncio.run(_awaited(value))
        return value

    def _items(self, items):
        while True:
            try:
                item = next(items)
            except StopIteration as end:
                return end.value
            self._item(item)

    async def _async_items(self, items):
        async for item in items:
            self._item(item)

    def _item(self, item):
        flush()
        self.send({"kind": "item", "item": encode.encode(item, self.limits)})

    def _returned(self, value, before):
        try:
            encoded = encode.encode(value, self.limits)
            encode.dump(encoded, int(self.limits["result_bytes"]), "the result")
        except errors.CannotSend as error:
            return self._unsendable(error)
        self._last({"ok": True, "value": encoded}, before)

    def _unsendable(self, error):
        large = error.code == "too_large"
        self.refuse("too_large" if large else "unsandboxable", "result_too_large" if large else "result_type",
                    str(error), "maybe")

    def _raised(self, error, before):
        told = self._told(error, groups.Bounds(), 0)
        told.update({"kind": "tool_raised", "traceback": _trace(error)})
        hint, names = self._hint(error, told["message"])
        if hint:
            told["hint"], told["withheld"] = hint, names
        self._last({"ok": False, "error": told}, before)

    def _told(self, error, bounds, depth):
        """One exception as a document, the members of a group included."""
        told = {"type": encode.class_name(type(error)), "message": _said(error),
                "mro": [encode.class_name(c) for c in type(error).__mro__ if c is not object][:64],
                "args": self._plain(list(error.args)), "state": self._plain(_attributes(error))}
        group = groups.told(error, self._told, bounds, depth)
        if group is not None:
            told["args"], told["group"] = None, group
        return told

    def _plain(self, value):
        """Typed JSON where there is one, else nothing."""
        try:
            return encode.encode(value, self.limits)
        except Exception:
            return None

    def _hint(self, error, message):
        """Which withheld variable the failure may be about."""
        names = environment.READS.names()
        if not names and self._about_access(error, message):
            names = self.prepared.reads
        if names:
            names = names[:5]
            return ("[code-sandbox] %s %s withheld from the sandbox. Allow it with tool-env-allow, or keep the tool "
                    "in the agent with tools-exclude." % (", ".join(names), "are" if len(names) > 1 else "is"), names)
        if isinstance(error, NameError) and (self.prepared.error or self.prepared.stopped):
            return ("[code-sandbox] the import of the program stopped early: %s" % (
                self.prepared.stopped or self.prepared.error.strip().splitlines()[-1]), [])
        return "", []

    def _about_access(self, error, message):
        """True for what a missing key or the missing network raises."""
        text = environment.REDACTED in message or environment.HOST in message
        cls = type(error)
        foreign = cls.__module__ != "builtins" and not owner.owns_class(cls) and not _speaks(cls)
        return text or isinstance(error, (ConnectionError, TimeoutError)) or foreign

    def _last(self, document, before):
        flush()
        try:
            document["state_changed"] = state.changed(before, state.Snapshot(before))
        except Exception:  # a hostile __eq__ or __hash__ must not cost the result
            document["state_changed"] = []
        document["kind"] = "result"
        self.send(document)

    def refuse(self, code, reason, message, executed):
        """The last frame of a call that gives no value for a reason of ours."""
        flush()
        self.send({"kind": "failed", "error": {"code": code, "reason": reason, "message": message[:4000],
                                               "executed": executed, "retryable": False}})


def _attributes(error):
    """What the exceptions of a framework carry beside their text."""
    if not _speaks(type(error)):
        return None
    return {k: v for k, v in getattr(error, "__dict__", {}).items() if not k.startswith("_")}


def _speaks(cls):
    """True for the exceptions by which a tool speaks to its framework."""
    return any(base.__name__ in rebuild.FRAMEWORK.get(base.__module__, ()) for base in cls.__mro__)


async def _awaited(value):
    return await value


def _said(error):
    try:
        return str(error)[:LONGEST_MESSAGE]
    except Exception:
        return type(error).__name__


def _trace(error):
    try:
        lines = traceback.format_exception(type(error), error, prepare.without_ours(error.__traceback__))
        return "".join(lines)[-LONGEST_TRACE:]
    except Exception:
        return ""


def flush():
    """Sends what is printed and still buffered on its way."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass


def after_fork():
    """What a fork of a ready copy must do anew: random numbers must differ."""
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(int.from_bytes(os.urandom(4), "little"))


def rehearse(prepared):
    """Walks the way of a call once, so that a real one finds its modules imported
    and its memory touched."""
    try:
        caller = Caller({"args": [1, "a"], "kwargs": {"c": [2.5]}}, prepared, json.dumps)
        caller.run(lambda *args, **kwargs: [args, kwargs], state.Snapshot())
    except Exception:  # the real call will tell
        pass
