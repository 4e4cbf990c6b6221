"""CrewAI."""
import json

import checks
import world

AGENT = "crew_agent.py"


def alone(sidecar, turns, **env):
    return world.run(AGENT, json.dumps(turns), sidecar=sidecar, **env)


def same(sidecar, turns, tmp_path):
    plain = world.run(AGENT, json.dumps(turns), HOME=str(tmp_path))
    boxed = alone(sidecar, turns, HOME=str(tmp_path))
    for key in ("seen", "answer", "used"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return boxed.result


def test_t10_function_and_subclass(sidecar, tmp_path):
    result = same(sidecar, [["adder", {"a": 2, "b": 3}], ["twice", {"text": "ab"}]], tmp_path)
    text = str(result["seen"])
    assert "Observation: 5" in text and "Observation: abab" in text
    checks.ids_differ(sidecar, 2)


def test_exception(sidecar, tmp_path):
    assert "bad x" in str(same(sidecar, [["boom", {"text": "x"}]], tmp_path)["seen"])


def test_t10_usage_limit_counts_in_the_agent(sidecar, tmp_path):
    result = same(sidecar, [["limited", {"n": 1}], ["limited", {"n": 2}], ["limited", {"n": 3}]], tmp_path)
    text = str(result["seen"])
    assert result["used"][0] == 2 and "usage limit" in text
    # what ran, ran in a sandbox; what the limit stopped, did not reach one
    checks.ids_differ(sidecar, text.count("Observation: 10") + text.count("Observation: 20"))
    assert sidecar.calls and len(sidecar.calls) < 3


def test_elsewhere(sidecar, tmp_path):
    result = alone(sidecar, [["where", {}]], HOME=str(tmp_path)).result
    text = "\n".join(result["seen"]).split("Observation:", 1)[1].strip().splitlines()[0]
    checks.is_elsewhere(json.loads(text), result["pid"], sidecar)


def test_t6_subclass_with_a_key_refused(sidecar, marker, tmp_path):
    ended = alone(sidecar, [["keyed", {"text": marker.path}]], HOME=str(tmp_path))
    assert "holds state that a copy cannot have" in ended.stdout + ended.stderr
    assert not marker.ran() and not sidecar.calls
    checks.no_secret(ended.stdout)
