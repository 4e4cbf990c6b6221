"""LlamaIndex."""
import json

import checks
import world

AGENT = "llama_agent.py"


def same(sidecar, calls):
    plain, boxed = world.both(AGENT, json.dumps(calls), sidecar=sidecar)
    for key in ("results", "schemas"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return {r[0]: r[1] for r in boxed.result["results"]}


def test_functions(sidecar):
    told = same(sidecar, [["add", {"a": 2, "b": 3}], ["shout", {"text": "hi"}], ["blocks", {"text": "b"}],
                          ["boom", {"text": "x"}], ["scale", {"x": 4}]])
    assert told["add"] == "5" and told["shout"] == "HI" and told["blocks"] == "block b" and told["scale"] == "12"
    checks.ids_differ(sidecar, 5)


def test_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]]), sidecar=sidecar).result
    checks.is_elsewhere(json.loads(result["results"][0][1]), result["pid"], sidecar)


def test_t3_context_refused(sidecar, marker):
    result = world.run(AGENT, json.dumps([["with_context", {"path": marker.path}]]), sidecar=sidecar).result
    assert "takes an object of the framework" in result["results"][0][1] and result["results"][0][2]
    assert not marker.ran() and not sidecar.calls
