"""Pydantic AI."""
import json

import checks
import world

AGENT = "pydantic_agent.py"


def same(sidecar, turns):
    """Runs the turns without and with the sandbox; the messages are the same."""
    plain, boxed = world.both(AGENT, json.dumps(turns), sidecar=sidecar)
    one, two = plain.result, boxed.result
    one.pop("pid"), two.pop("pid")
    assert one == two, boxed.stderr[-3000:]
    return two["parts"]


def test_t8_tool_plain(sidecar):
    parts = same(sidecar, [[["add", {"a": 2, "b": 3}], ["hours", {"days": 2}], ["rich", {}]]])
    assert "5" in [p[2] for p in parts] and "48" in [p[2] for p in parts]
    checks.ids_differ(sidecar, 3)


def test_t8_model_retry_in_the_copy_retries_in_the_agent(sidecar):
    parts = same(sidecar, [[["even", {"n": 3}]], [["even", {"n": 4}]]])
    assert [p[1:3] for p in parts if "odd" in p[2]] == [["even", "3 is odd, give an even number"]]
    assert "4 is fine" in [p[2] for p in parts]
    checks.ids_differ(sidecar, 2)


def test_t2_async_with_model_and_dataclass(sidecar):
    parts = same(sidecar, [[["plan", {"start": "2026-01-30", "days": 3}]]])
    assert any("2026, 2, 2" in p[2] for p in parts)
    checks.ids_differ(sidecar, 1)


def test_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([[["where", {}]]]), sidecar=sidecar).result
    seen = json.loads([p[2] for p in result["parts"] if p[1] == "where"][0])
    checks.is_elsewhere(seen, result["pid"], sidecar)


def test_t3_context_refused(sidecar, marker):
    ended = world.run(AGENT, json.dumps([[["with_context", {"path": marker.path}]]]), sidecar=sidecar)
    assert "Unsandboxable" in ended.result["error"] and "takes an object of the framework" in ended.result["error"]
    assert not marker.ran() and not sidecar.calls


def test_t3_context_inline(sidecar, marker):
    result = world.run(AGENT, json.dumps([[["with_context", {"path": marker.path}]]]), sidecar=sidecar,
                       CODE_SANDBOX_TOOLS_CONTEXT="inline").result
    assert marker.pid() == result["pid"]
