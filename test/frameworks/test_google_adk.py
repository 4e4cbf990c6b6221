"""Google ADK."""
import json

import checks
import world

AGENT = "adk_agent.py"


def same(sidecar, calls):
    plain, boxed = world.both(AGENT, json.dumps(calls), sidecar=sidecar)
    for key in ("results", "error"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return boxed.result


def test_functions(sidecar):
    result = same(sidecar, [["add", {"a": 2, "b": 3}], ["shout", {"text": "hi"}]])
    assert result["results"] == [["add", {"sum": 5}], ["shout", {"result": "HI"}]]
    checks.ids_differ(sidecar, 2)


def test_exception(sidecar):
    assert "bad x" in str(same(sidecar, [["boom", {"text": "x"}]]))
    checks.ids_differ(sidecar, 1)


def test_t11_the_loop_goes_on_during_a_call(sidecar):
    result = world.run(AGENT, json.dumps([["slow", {"seconds": 3}]]), sidecar=sidecar).result
    assert result["results"] == [["slow", {"result": "slept"}]]
    assert result["gap"] < 1.5, "the heartbeat stood still for %.1f s" % result["gap"]


def test_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]]), sidecar=sidecar).result
    checks.is_elsewhere(result["results"][0][1], result["pid"], sidecar)


def test_t3_context_refused(sidecar, marker):
    ended = world.run(AGENT, json.dumps([["with_context", {"path": marker.path}]]), sidecar=sidecar)
    assert "takes an object of the framework" in str(ended.result)
    assert not marker.ran() and not sidecar.calls
