"""smolagents."""
import json

import checks
import world

AGENT = "smol_agent.py"


def same(sidecar, turns, *more):
    plain, boxed = world.both(AGENT, json.dumps(turns), *more, sidecar=sidecar)
    for key in ("steps", "answer", "source"):
        assert plain.result[key] == boxed.result[key], boxed.stderr[-3000:]
    return boxed.result


def test_functions_and_classes(sidecar):
    result = same(sidecar, [["add", {"a": 2, "b": 3}], ["twice", {"text": "ab"}]])
    assert [s[0] for s in result["steps"]][:2] == ["5", "abab"]
    checks.ids_differ(sidecar, 2)


def test_exception(sidecar):
    result = same(sidecar, [["boom", {"text": "x"}]])
    assert "bad x" in result["steps"][0][1]
    checks.ids_differ(sidecar, 1)


def test_elsewhere(sidecar):
    result = world.run(AGENT, json.dumps([["where", {}]]), sidecar=sidecar).result
    checks.is_elsewhere(json.loads(result["steps"][0][0]), result["pid"], sidecar)


def test_t6_class_with_a_key_refused(sidecar, marker):
    ended = world.run(AGENT, json.dumps([["keyed", {"path": marker.path}]]), sidecar=sidecar)
    assert "holds state that a copy cannot have" in ended.result["steps"][0][1]
    assert not marker.ran() and not sidecar.calls


def test_t22_python_interpreter_tool(sidecar):
    result = same(sidecar, [["python_interpreter", {"code": "x = 6 * 7\nx"}]])
    assert "42" in result["steps"][0][0]
    checks.ids_differ(sidecar, 1)


def test_t22_code_agent_is_refused_rather_than_run_here(sidecar, marker):
    # its interpreter holds tools and variables of the agent from step to step
    code = "<code>\nimport os\nopen(%r, 'w').write('x')\nprint(os.environ['OPENAI_API_KEY'])\n</code>" % marker.path
    ended = world.run(AGENT, json.dumps([code] * 5), "code", sidecar=sidecar)
    checks.no_secret(ended.stdout)
    assert not marker.ran() and "LocalPythonExecutor" in ended.stdout + ended.stderr
