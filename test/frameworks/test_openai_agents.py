"""OpenAI Agents SDK."""
import json

import checks
import world

AGENT = "openai_agent.py"


def same(sidecar, calls, **env):
    """Runs the calls without and with the sandbox; the messages are the same."""
    plain, boxed = world.both(AGENT, json.dumps(calls), sidecar=sidecar, **env)
    for key in ("outputs", "names", "schemas"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return boxed.result


def test_t1_function_tool(sidecar):
    result = same(sidecar, [["add", {"a": 2, "b": 3}], ["boom", {"text": "x"}]])
    assert result["outputs"][0] == "5"
    checks.ids_differ(sidecar, 2)


def test_t1_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]]), sidecar=sidecar).result
    checks.is_elsewhere(json.loads(result["outputs"][0]), result["pid"], sidecar)


def test_t1_closures_of_one_factory(sidecar):
    result = same(sidecar, [["plus5", {"x": 1}], ["plus7", {"x": 1}]])
    assert result["outputs"] == ["6", "8"]
    checks.ids_differ(sidecar, 2)


def test_t2_async_pydantic(sidecar):
    result = same(sidecar, [["weather", {"query": {"city": "Bern", "unit": "celsius"}}]])
    assert "Bern" in result["outputs"][0]
    checks.ids_differ(sidecar, 1)


def test_t3_context_refused(sidecar, marker):
    ended = world.run(AGENT, json.dumps([["with_context", {"path": marker.path}]]), sidecar=sidecar)
    assert "error occurred" in ended.result["outputs"][0]
    assert "takes an object of the framework" in ended.stderr
    assert sidecar.tools()["with_context"]["reason"] == "context_parameter"
    assert not marker.ran() and not sidecar.calls


def test_t3_context_inline(started, marker):
    sidecar = started(policy={"context": "inline"})
    ended = world.run(AGENT, json.dumps([["with_context", {"path": marker.path}]]), sidecar=sidecar)
    assert ended.result["outputs"][0].startswith("context ")
    assert marker.pid() == ended.result["pid"]
    assert "runs in the agent" in ended.stderr


def test_t4_stays(sidecar):
    result = same(sidecar, [["helper", {"input": "x"}], ["remote", {}]])
    assert result["outputs"][0] == "done" and "called by the agent" in str(result["outputs"][1])
    assert not sidecar.calls and "helper" not in {
        t for t, d in sidecar.tools().items() if d["decision"] == "sandboxed"}


def test_refused_made_at_run_time(sidecar, marker):
    ended = world.run(AGENT, json.dumps([["late", {"path": marker.path}]]), sidecar=sidecar)
    assert "error occurred" in ended.result["outputs"][0]
    assert "create it at module level" in ended.stderr
    assert not marker.ran()


def test_t20_pool_down_is_no_fallback(marker):
    ended = world.run(AGENT, json.dumps([["late", {"path": marker.path}]]), sidecar="http://127.0.0.1:9")
    assert "error occurred" in ended.result["outputs"][0]
    assert not marker.ran()


def test_off(started, marker):
    result = world.run(AGENT, json.dumps([["late", {"path": marker.path}]]), sidecar="http://127.0.0.1:9",
                       CODE_SANDBOX_TOOLS="off").result
    assert result["outputs"] == ["True"] and marker.pid() == result["pid"]


def test_parallel_calls_have_a_sandbox_each(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]] * 6), sidecar=sidecar).result
    checks.apart(sidecar, [json.loads(o)["pid"] for o in result["outputs"]])
    checks.ids_differ(sidecar, 6)
