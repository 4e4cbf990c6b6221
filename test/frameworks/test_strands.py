"""Strands Agents."""
import json

import checks
import world

AGENT = "strands_agent.py"


def same(sidecar, calls):
    plain, boxed = world.both(AGENT, json.dumps(calls), sidecar=sidecar)
    for key in ("results", "streamed", "specs"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return boxed.result


def test_functions(sidecar):
    result = same(sidecar, [["add", {"a": 2, "b": 3}], ["shout", {"text": "hi"}], ["boom", {"text": "x"}],
                            ["bad_value", {}]])
    assert [r["content"][0]["text"] for r in result["results"]] == [
        "5", "HI", "Error: LookupError - none of x", "Error: bad"]
    checks.ids_differ(sidecar, 4)


def test_t12_async_generator_streams(sidecar):
    result = same(sidecar, [["progress", {"n": 3}]])
    assert result["streamed"][:3] == ["step 0", "step 1", "step 2"] and result["spread"] > 0.4
    assert result["results"][0]["content"][0]["text"] == "all 3"
    checks.ids_differ(sidecar, 1)


def test_method_of_a_module_level_object(sidecar):
    assert same(sidecar, [["size", {"n": 4}]])["results"][0]["content"][0]["text"] == "8"
    checks.ids_differ(sidecar, 1)


def test_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]]), sidecar=sidecar).result
    checks.is_elsewhere(json.loads(result["results"][0]["content"][0]["text"]), result["pid"], sidecar)


def test_t3_agent_parameter_refused(sidecar, marker):
    result = world.run(AGENT, json.dumps([["with_agent", {"path": marker.path}]]), sidecar=sidecar).result
    assert "takes an object of the framework" in result["results"][0]["content"][0]["text"]
    assert not marker.ran() and not sidecar.calls
