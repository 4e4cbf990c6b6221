"""The class of a value, an argument or a result, is kept or the call is refused; an
exception that would end the agent does not arrive as itself."""
import pytest

import world

MAIN = """
import collections, enum, http, json, os, pathlib, sys
import tools
def say(f):
    try: return f()
    except Exception as e: return [getattr(e, "reason", ""), str(e)]
def kinds(values):
    return [[type(v).__name__, repr(v), repr(getattr(v, "default_factory", ""))] for v in values]
"""
BACK = """
def kinds(values):
    return [[type(v).__name__, repr(v), repr(getattr(v, "default_factory", ""))] for v in values]
def back(values): return values
"""
KEPT = """[
    collections.deque([1], maxlen=1), collections.deque([], 3), collections.deque([1, 2]),
    collections.defaultdict(list, {"$t": [1], 2: []}), collections.defaultdict(None, a=1),
    collections.defaultdict(int), [collections.defaultdict(dict, a={})], pathlib.PurePosixPath("/x"), pathlib.Path("y")]"""


def test_kept_as_argument_and_as_result(tmp_path, sidecar):
    main = MAIN + """
values = %s
members = [http.HTTPStatus.NOT_FOUND, tools.Word.YES, tools.Level.HIGH]
print("RESULT " + json.dumps([kinds(values), tools.kinds(values), kinds(tools.back(values)), kinds(members),
                              tools.kinds(members)]))
""" % KEPT
    more = "import enum\nclass Word(str, enum.Enum):\n    YES = 'y'\nclass Level(enum.IntEnum):\n    HIGH = 3\n"
    sent, arrived, back, members, members_arrived = world.own(tmp_path, {"tools": BACK + more, "main": main}, sidecar).result
    assert arrived == sent and back == sent and members_arrived == members
    assert sent[0][1] == "deque([1], maxlen=1)" and sent[3][2] == "<class 'list'>"
    assert [m[0] for m in members] == ["HTTPStatus", "Word", "Level"]


CLASSES = """
import collections, os, pathlib
class Text(str):
    def shout(self): return self.upper()
class Number(int): pass
class Real(float): pass
class Raw(bytes): pass
class Row(tuple): pass
class Many(list): pass
class Missing(dict):
    def __missing__(self, key): return 7
class Ordered(collections.OrderedDict): pass
class Odd(pathlib.PurePosixPath): pass
def takes(path, value):
    with open(path, "w") as file: file.write(str(os.getpid()))
    return value
def makes(path, text):
    with open(path, "w") as file: file.write(str(os.getpid()))
    return eval(text)
def streams(path, text):
    with open(path, "w") as file: file.write(str(os.getpid()))
    yield 1
    yield eval(text)
"""
# The value as code -> what its refusal says.
CHANGED = {
    "Text('a')": "tools.Text across the sandbox's border: it is a subclass of str, whose own behaviour would be lost on the way; use str(value)",
    "Number(1)": "subclass of int", "Real(1)": "subclass of float", "Raw(b'a')": "subclass of bytes",
    "Row((1,))": "subclass of tuple", "Many([1])": "subclass of list", "Missing(a=1)": "subclass of dict",
    "Ordered(a=1)": "subclass of dict", "Odd('/x')": "subclass of PurePath",
    "[{'k': Text('a')}]": "subclass of str", "{Text('a'): 1}": "subclass of str",
    "memoryview(b'a')": "use bytes(value)", "pathlib.PureWindowsPath('x')": "subclass of PurePath",
    "collections.defaultdict(lambda: 1)": "its factory is not one of bool, bytes, dict",
    "collections.defaultdict(Many)": "use dict(value)",
}
RUN = MAIN + """
from tools import *
CALL
print("RESULT " + json.dumps(say(call)))
"""


@pytest.mark.parametrize("value", sorted(CHANGED))
def test_refused_argument_of_another_class(tmp_path, sidecar, marker, value):
    main = RUN.replace("CALL", "call = lambda: tools.takes(%r, %s)" % (marker.path, value))
    ended = world.own(tmp_path, {"tools": CLASSES, "main": main}, sidecar)
    reason, text = ended.result
    assert reason == "argument" and CHANGED[value] in text, text
    assert text in ended.stderr, "the refusal is logged"
    assert not marker.ran() and not sidecar.calls


@pytest.mark.parametrize("value", ["Text('a')", "Missing(a=1)", "memoryview(b'a')", "collections.defaultdict(lambda: 1)"])
def test_refused_result_type_of_another_class(tmp_path, sidecar, marker, value):
    main = RUN.replace("CALL", "call = lambda: tools.makes(%r, %r)" % (marker.path, value))
    reason, text = world.own(tmp_path, {"tools": CLASSES, "main": main}, sidecar).result
    assert reason == "result_type" and CHANGED[value] in text, text
    assert marker.ran() and [marker.pid()] == [c["pid"] for c in sidecar.calls]


def test_refused_result_type_in_a_stream(tmp_path, sidecar, marker):
    main = RUN.replace("CALL", """
got = []
def call():
    try: got.extend(iter_all())
    finally: print(got)
def iter_all():
    for item in tools.streams(%r, "Text('a')"): got.append(item)
    return []
""" % marker.path)
    ended = world.own(tmp_path, {"tools": CLASSES, "main": main}, sidecar)
    reason, text = ended.result
    assert reason == "result_type" and "tools.Text" in text and "[1]\n" in ended.stdout
    assert marker.ran() and [marker.pid()] == [c["pid"] for c in sidecar.calls]


# Frameworks' own subclasses of plain data, at the names that they really have.
FRAMEWORKS = {"langchain_core.messages.base": "class TextAccessor(str):\n    def __call__(self): return str(self)\n",
              "langchain_core.runnables.utils": "class AddableDict(dict):\n    def __add__(self, other): return self\n",
              "smolagents.agent_types": "class AgentText(str):\n    def to_raw(self): return self\n"}


def test_kept_as_plain_data_what_frameworks_hand_out(tmp_path, sidecar):
    main = MAIN + """
import types
def made(module, text):
    namespace = {"__name__": module}
    exec(text, namespace)
    return namespace
parts = {}
for module, text in %r.items(): parts.update(made(module, text))
values = [parts["TextAccessor"]("a"), parts["AddableDict"](b=1), parts["AgentText"]("c")]
print("RESULT " + json.dumps([tools.kinds(values)]))
""" % FRAMEWORKS
    arrived, = world.own(tmp_path, {"tools": BACK, "main": main}, sidecar).result
    assert [a[:2] for a in arrived] == [["str", "'a'"], ["dict", "{'b': 1}"], ["str", "'c'"]]


ENDING = """
import asyncio
def leave(): raise SystemExit(3)
def interrupt(): raise KeyboardInterrupt("stop")
def close(): raise GeneratorExit("end")
def cancel(): raise asyncio.CancelledError("away")
"""


def test_exceptions_that_would_end_the_agent_are_ordinary_ones(tmp_path, sidecar):
    main = MAIN + """
from code_sandbox_hook import errors
def caught(f):
    try: f()
    except errors.SandboxedToolError as e: return [type(e).__name__, list(e.args)]
print("RESULT " + json.dumps([caught(getattr(tools, n)) for n in ("leave", "interrupt", "close", "cancel")]))
"""
    result = world.own(tmp_path, {"tools": ENDING, "main": main}, sidecar).result
    assert result == [["SystemExit", [3]], ["KeyboardInterrupt", ["stop"]], ["GeneratorExit", ["end"]],
                      ["CancelledError", ["away"]]]
