"""Calls, streams, values and exceptions, with hand-written dispatch: needs no
framework, so it runs on every Python."""
import world

SAY = """
import asyncio, json, os, sys
import tools
def say(f):
    try: return f()
    except Exception as e: return [type(e).__name__, [b.__name__ for b in type(e).__mro__], str(e)]
"""

VALUES = """
import collections, dataclasses, datetime, decimal, enum, pathlib, uuid
from typing import Dict, List, NamedTuple, Optional, Tuple

class Color(enum.Enum):
    RED = 1

class Pair(NamedTuple):
    a: int
    b: str

@dataclasses.dataclass
class Item:
    name: str
    tags: Tuple[str, ...] = ()
    parent: Optional["Item"] = None
    color: Color = Color.RED

def values():
    return [None, True, 1, 2 ** 70, 1.5, float("inf"), "text \\u00e9 \\ud800", b"\\x00\\xff", bytearray(b"x"),
            (1, (2, 3)), {1, 2}, frozenset([3]), {1: "a", (2, 3): "b"}, {"$t": "not a tag"},
            datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc), datetime.date(2026, 1, 2),
            datetime.time(1, 2), datetime.timedelta(days=1, microseconds=5), decimal.Decimal("1.10"),
            uuid.UUID(int=5), pathlib.Path("/x/y"), 1 + 2j, range(1, 9, 2), collections.OrderedDict(a=1),
            collections.Counter("aab"), collections.deque([1, 2])]

def item(name: str) -> Item:
    return Item(name, ("x",), Item("parent"))

def pair(p: Pair) -> Dict[str, List[Pair]]:
    return {"pairs": [p, Pair(p.a + 1, p.b)]}

def echo(*args, **kwargs):
    return [args, kwargs]

def unnamed(name):
    return Item(name)

def handle():
    return open("/dev/null")

def lock(value):
    return 1
"""


def test_values_cross_both_ways(tmp_path, sidecar):
    main = SAY + """
import datetime
first = tools.__dict__["values"].__wrapped__() if hasattr(tools.values, "__wrapped__") else tools.values()
got = tools.values()
same = [type(a) is type(b) and (a == b) for a, b in zip(first, got)]
p = tools.Pair(1, "x")
out = [same, tools.item("n") == tools.Item("n", ("x",), tools.Item("parent")), repr(tools.pair(p)),
       repr(tools.echo(1, {2}, k=(datetime.date(2026, 1, 1), 1)))]
print("RESULT " + json.dumps(out))
"""
    files = {"tools": VALUES, "main": main}
    boxed = world.own(tmp_path, files, sidecar).result
    plain = world.run(world.program(tmp_path, **files)).result
    assert all(boxed[0]) and len(boxed[0]) == 26 and boxed == plain
    assert len(sidecar.calls) == 4


def test_values_that_cannot_cross(tmp_path, sidecar):
    main = SAY + """
import threading
print("RESULT " + json.dumps([say(lambda: tools.unnamed("x")), say(tools.handle),
                              say(lambda: tools.lock(threading.Lock()))]))
"""
    unnamed, handle, lock = world.own(tmp_path, {"tools": VALUES, "main": main}, sidecar).result
    assert "which its return annotation does not name; annotate the function with -> Item" in unnamed[2]
    assert handle[0] == "Unsandboxable" and "cannot send a _io.TextIOWrapper" in handle[2]
    assert lock[0] == "Unsandboxable" and len(sidecar.calls) == 2


RAISING = """
import json
class Own(LookupError):
    pass
class Fussy(ValueError):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code
def key(): return {}["k"]
def own(): raise Own("mine", 2)
def fussy(): raise Fussy(3, "text")
def parse(): return json.loads("{")
def leave(): raise SystemExit(3)
def file(): return open("/nonexistent/file")
def bare(): raise Exception("bare")
def group(): return int("x")
"""


def test_exceptions_keep_name_text_and_builtin_base(tmp_path, sidecar):
    main = SAY + """
print("RESULT " + json.dumps([say(getattr(tools, n)) for n in ("key", "own", "fussy", "parse", "file", "bare",
                                                               "group")]))
"""
    files = {"tools": RAISING, "main": main}
    boxed = world.own(tmp_path, files, sidecar).result
    plain = world.run(world.program(tmp_path, **files)).result
    for ours, theirs in zip(boxed, plain):
        assert ours[0] == theirs[0] and ours[2] == theirs[2]
        assert set(ours[1]) >= {b for b in theirs[1] if b in ("ValueError", "LookupError", "KeyError", "OSError")}


def test_exception_that_would_end_the_agent_does_not(tmp_path, sidecar):
    main = SAY + 'print("RESULT " + json.dumps(say(tools.leave)))\n'
    result = world.own(tmp_path, {"tools": RAISING, "main": main}, sidecar).result
    assert result[0] == "SystemExit" and "SandboxedToolError" in result[1] and result[2] == "3"


STREAMS = """
import asyncio, os, time
def count(n):
    for i in range(n):
        yield [i, os.getpid()]
        time.sleep(0.3)
    return "end"
async def acount(n):
    for i in range(n):
        yield i
        await asyncio.sleep(0.3)
def breaks():
    yield 1
    raise KeyError("after one")
async def slow(seconds, path):
    await asyncio.sleep(seconds)
    open(path, "w").close()
    return "slept"
"""


def test_t12_generators_stream(tmp_path, sidecar):
    main = SAY + """
import time, inspect
def whole():
    value = yield from tools.count(3)
    yield value
begin = time.monotonic(); at = []; items = []
for item in whole():
    items.append(item); at.append(time.monotonic() - begin)
async def run():
    times = []; got = []
    async for i in tools.acount(3):
        got.append(i); times.append(time.monotonic())
    return got, times[-1] - times[0]
got, spread = asyncio.run(run())
kinds = [inspect.isgeneratorfunction(tools.count), inspect.isasyncgenfunction(tools.acount),
         inspect.iscoroutinefunction(tools.slow), inspect.iscoroutinefunction(tools.breaks)]
broken = []
error = say(lambda: [broken.append(x) for x in tools.breaks()])
print("RESULT " + json.dumps([items, at[2] - at[0], got, spread, kinds, broken, error, os.getpid()]))
"""
    items, spread, got, aspread, kinds, broken, error, pid = world.own(
        tmp_path, {"tools": STREAMS, "main": main}, sidecar).result
    assert [i[0] for i in items[:3]] == [0, 1, 2] and items[3] == "end" and items[0][1] != pid
    assert spread > 0.4 and aspread > 0.4, "the items came all at once"
    assert got == [0, 1, 2] and kinds == [True, True, True, False]
    assert broken == [1] and error[0] == "KeyError"


def test_t20_cancelled_task_ends_the_copy(tmp_path, sidecar, marker):
    main = SAY + """
import time
async def run():
    task = asyncio.ensure_future(tools.slow(4, %r))
    await asyncio.sleep(1.5)
    task.cancel()
    try: await task
    except asyncio.CancelledError: return "cancelled"
print("RESULT " + json.dumps(asyncio.run(run())))
time.sleep(2)
""" % marker.path
    ended = world.own(tmp_path, {"tools": STREAMS, "main": main}, sidecar)
    assert ended.result == "cancelled"
    assert len(sidecar.calls) == 1 and not sidecar.alive()
    assert sidecar.calls[0]["ended"] - sidecar.calls[0]["started"] < 3.5 and not marker.ran()


def test_t20_timed_out_call(tmp_path, sidecar, marker):
    main = SAY + 'print("RESULT " + json.dumps(say(lambda: asyncio.run(tools.slow(9, %r)))))' % marker.path
    result = world.own(tmp_path, {"tools": STREAMS, "main": main}, sidecar, CODE_SANDBOX_TOOL_TIMEOUT="2").result
    assert result[0] == "SandboxUnavailable" and "took too long" in result[2]
    assert not sidecar.alive() and not marker.ran()


def test_t20_pool_down_never_runs_in_the_agent(tmp_path, marker):
    main = SAY + 'print("RESULT " + json.dumps(say(lambda: asyncio.run(tools.slow(0, %r)))))' % marker.path
    result = world.own(tmp_path, {"tools": STREAMS, "main": main}, "http://127.0.0.1:9").result
    assert result[0] == "SandboxUnavailable" and "the tool did not run" in result[2]
    assert not marker.ran()
