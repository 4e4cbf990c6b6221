"""LangChain and LangGraph."""
import json

import pytest

import checks
import world

AGENT = "langchain_agent.py"
REPL = "import os; print(os.environ['OPENAI_API_KEY'], os.getpid())"


def same(sidecar, calls, mode="sync"):
    """Runs the calls without and with the sandbox; the messages are the same."""
    plain, boxed = world.both(AGENT, json.dumps(calls), mode, sidecar=sidecar)
    assert plain.result["told"] == boxed.result["told"], boxed.stderr[-3000:]
    assert plain.result["args"] == boxed.result["args"]
    return boxed.result


def alone(sidecar, calls, mode="sync", **env):
    return world.run(AGENT, json.dumps(calls), mode, sidecar=sidecar, **env)


def test_t5_sync(sidecar):
    calls = [["add", {"a": 2, "b": 3}], ["boom", {"text": "k"}], ["picture", {"name": "cat"}],
             ["careful", {"text": "thing"}], ["shorter", {"__arg1": "abcdef"}]]
    told = same(sidecar, calls)["told"]
    assert [t[1] for t in told][0] == "5" and told[2][2] == repr({"bytes": b"\x00\xff", "size": (2, 3)})
    checks.ids_differ(sidecar, 5)


def test_t5_async(sidecar):
    told = same(sidecar, [["shout", {"text": "hi"}], ["add", {"a": 1, "b": 1}]], "async")["told"]
    assert told[0][1] == "HI"
    checks.ids_differ(sidecar, 2)


def test_t5_parallel_calls_land_in_different_sandboxes(sidecar):
    result = alone(sidecar, [["where", {}]] * 4, "async").result
    seen = [json.loads(t[1]) for t in result["told"]]
    checks.apart(sidecar, [s["pid"] for s in seen])
    checks.is_elsewhere(seen[0], result["pid"], sidecar)
    checks.ids_differ(sidecar, 4)


def test_t6_subclass_at_module_level(sidecar):
    told = same(sidecar, [["search", {"query": "q"}], ["stateless", {"query": "q"}]])["told"]
    assert told[0][1] == '["q", "q", 0]'
    checks.ids_differ(sidecar, 2)


def test_t6_subclass_async(sidecar):
    assert same(sidecar, [["stateless", {"query": "q"}]], "async")["told"][0][1] == "async q"
    checks.ids_differ(sidecar, 1)


def test_t6_subclass_elsewhere(sidecar):
    result = alone(sidecar, [["search", {"query": "pid"}]]).result
    assert json.loads(result["told"][0][1])[-1] in [c["pid"] for c in sidecar.calls]


def test_t6_subclass_with_a_client_refused(sidecar, marker):
    ended = alone(sidecar, [["keyed", {"path": marker.path}]])
    assert "holds state that a copy cannot have" in ended.result["told"][0][1]
    assert not marker.ran() and not sidecar.calls
    checks.no_secret(ended.stdout)


@pytest.mark.parametrize("tool", ["with_state", "with_config", "steer"])
def test_t7_injected_refused(sidecar, marker, tool):
    told = alone(sidecar, [[tool, {"path": marker.path}]]).result["told"]
    assert "takes an object of the framework" in told[0][1] and told[0][3] == "error"
    assert not marker.ran() and not sidecar.calls


def test_t7_command_refused(sidecar, marker):
    told = alone(sidecar, [["jump", {"path": marker.path}]]).result["told"]
    assert "returns Command, which steers the agent" in told[0][1]
    assert not marker.ran() and not sidecar.calls


def test_t7_command_allowed(sidecar, marker):
    ended = alone(sidecar, [["jump", {"path": marker.path}]], CODE_SANDBOX_ALLOW_RESULTS="Command")
    checks.ran_elsewhere(sidecar, marker, ended)


@pytest.mark.parametrize("tool, argument", [("Python_REPL", "query"), ("python_repl_ast", "query"),
                                            ("repl_method", "__arg1")])
def test_t22_third_party_python_repl_sees_no_key(sidecar, tool, argument):
    plain, boxed = world.both(AGENT, json.dumps([[tool, {argument: REPL}]]), "sync", sidecar=sidecar)
    assert world.SECRETS["OPENAI_API_KEY"] in plain.result["told"][0][1]
    key, pid = boxed.result["told"][0][1].split()
    assert key == "code-sandbox-redacted" and int(pid) == sidecar.calls[0]["pid"]
    checks.no_secret(boxed.stdout)


def test_t22_third_party_python_repl_same_answer(sidecar):
    told = same(sidecar, [["Python_REPL", {"query": "print(2**10)"}], ["python_repl_ast", {"query": "3*4"}]])["told"]
    assert [t[1] for t in told] == ["1024\n", "12"]
    checks.ids_differ(sidecar, 2)


NUMPY = """
import numpy
def kinds(values): return [[type(v).__name__, repr(v)] for v in values]
def back(values): return values
"""


def test_numpy_scalars_and_framework_text_by_value(tmp_path, sidecar):
    main = """
import json, numpy
import tools
from langchain_core.messages import AIMessage
from langchain_core.runnables.utils import AddableDict
values = [numpy.str_("a"), numpy.int64(3), numpy.float64(1.5), numpy.bool_(True), numpy.array([1, 2])]
message = AIMessage("hello").text
kinds = lambda values: [[type(v).__name__, repr(v)] for v in values]
print("RESULT " + json.dumps([kinds(values), tools.kinds(values), kinds(tools.back(values)), type(message).__name__,
                              tools.kinds([message, AddableDict(a=1)])]))
"""
    sent, arrived, back, kind, plain = world.own(tmp_path, {"tools": NUMPY, "main": main}, sidecar).result
    assert arrived == sent and back == sent and kind == "TextAccessor"
    assert plain == [["str", "'hello'"], ["dict", "{'a': 1}"]]
