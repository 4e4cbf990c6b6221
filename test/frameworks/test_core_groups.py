"""Exception groups of a tool arrive as such. Not collected before Python 3.11, which has
none: see conftest.py."""
import pytest

import world

MAIN = """
import json, os, sys
import tools
"""
RAISING = """
class Own(ExceptionGroup): pass
class Fussy(ExceptionGroup):
    def __new__(cls, text, errors, code=0): return super().__new__(cls, text, errors)
class Mine(LookupError): pass
def group(): raise ExceptionGroup("two", [ValueError("v", 2), ExceptionGroup("in", [KeyError("k"), Mine("m")])])
def own(): raise Own("own", [ValueError(1)])
def fussy(): raise Fussy("fussy", [ValueError(1)], 3)
def base(): raise BaseExceptionGroup("base", [SystemExit(3), ValueError(2)])
def many(): raise ExceptionGroup("many", [ValueError(i) for i in range(100)])
def deep():
    made = ValueError("bottom")
    for level in range(20): made = ExceptionGroup("level %d" % level, [made])
    raise made
def withheld():
    import os
    raise ExceptionGroup("key", [ValueError(os.environ["OPENAI_API_KEY"])])
"""
CAUGHT = MAIN + """
def shown(e):
    inner = [shown(x) for x in e.exceptions] if isinstance(e, BaseExceptionGroup) else list(map(str, e.args))
    return [type(e).__name__, str(e), isinstance(e, ExceptionGroup), inner]
def caught(f):
    try: f()
    except ExceptionGroup as e: return shown(e)
    except BaseException as e: return ["not a group", type(e).__name__]
"""


def raised(folder, sidecar, name):
    main = CAUGHT + "print('RESULT ' + json.dumps(caught(tools.%s)))\n" % name
    return world.own(folder, {"tools": RAISING, "main": main}, sidecar).result


@pytest.mark.parametrize("name", ["group", "own"])
def test_exception_group_is_the_same_as_without_us(tmp_path, sidecar, name):
    files = {"tools": RAISING, "main": CAUGHT + "print('RESULT ' + json.dumps(caught(tools.%s)))\n" % name}
    boxed, plain = world.own(tmp_path, files, sidecar).result, world.run(world.program(tmp_path, **files)).result
    assert plain[2] is True and boxed == plain and len(sidecar.calls) == 1


def test_exception_group_whose_class_cannot_be_made_keeps_name_and_base(tmp_path, sidecar):
    assert raised(tmp_path, sidecar, "fussy") == ["Fussy", "fussy (1 sub-exception)", True, [["ValueError", "1", False, ["1"]]]]


def test_exception_group_that_would_end_the_agent_does_not(tmp_path, sidecar):
    kind, text, group, members = raised(tmp_path, sidecar, "base")
    assert (kind, text, group) == ("BaseExceptionGroup", "base (2 sub-exceptions)", True)
    assert members == [["SystemExit", "3", False, ["3"]], ["ValueError", "2", False, ["2"]]]


def test_exception_group_is_bounded(tmp_path, sidecar):
    kind, text, _, members = raised(tmp_path, sidecar, "many")
    assert (kind, text, len(members)) == ("ExceptionGroup", "many (100 sub-exceptions)", 65)
    assert members[63][3] == ["63"] and members[64][1].startswith("36 more exceptions of this group were left out")
    level = raised(tmp_path, sidecar, "deep")
    for depth in range(19, 11, -1):
        assert level[1] == "level %d (1 sub-exception)" % depth
        level, = level[3]
    assert level[1] == "level 11 (1 sub-exception)" and level[3][0][1].startswith("1 more exceptions")


def test_exception_group_names_the_withheld_variable(tmp_path, sidecar):
    kind, text, group, members = raised(tmp_path, sidecar, "withheld")
    assert kind == "ExceptionGroup" and group and text.startswith("key (1 sub-exception)\n[code-sandbox] OPENAI_API_KEY")
    assert [m[0] for m in members] == ["ValueError"]
