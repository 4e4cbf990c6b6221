"""The Anthropic SDK's tool runner."""
import json

import checks
import world

AGENT = "anthropic_agent.py"


def same(sidecar, calls, mode):
    plain, boxed = world.both(AGENT, json.dumps(calls), mode, sidecar=sidecar)
    for key in ("sent", "schema"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return boxed.result["sent"][0]


def test_sync(sidecar):
    sent = same(sidecar, [["add", {"a": 2, "b": 3}], ["careful", {}], ["boom", {"text": "k"}]], "sync")
    assert sent[0]["content"] == "5" and sent[1]["content"] == [{"type": "text", "text": "no luck"}]
    assert sent[1]["is_error"] and sent[2]["is_error"]
    checks.ids_differ(sidecar, 3)


def test_async(sidecar):
    assert same(sidecar, [["shout", {"text": "hi"}]], "async")[0]["content"] == "HI"
    checks.ids_differ(sidecar, 1)


def test_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]]), "sync", sidecar=sidecar).result
    checks.is_elsewhere(json.loads(result["sent"][0][0]["content"]), result["pid"], sidecar)
