"""The MCP Python SDK and FastMCP; run once in the environment of each."""
import json

import pytest

import checks
import mcpclient


def kinds():
    try:
        import fastmcp  # noqa: F401
        return ["fastmcp"]
    except ImportError:
        return ["mcp"]


@pytest.fixture(params=kinds())
def kind(request):
    return request.param


def key(answer, *names):
    return next(answer[n] for n in names if n in answer)


def test_t9_same_answers(kind, sidecar):
    calls = [("add", {"a": 2, "b": 3}), ("points", {"n": 2}), ("point", {"p": {"x": 1, "y": 2}}), ("boom", {}),
             ("crash", {})]
    plain, _, _ = mcpclient.call(kind, calls)
    boxed, _, out = mcpclient.call(kind, calls, sidecar)
    assert plain == boxed, out[-3000:]
    assert key(boxed[2], "structuredContent", "structured_content")["result"][1]["y"] == 1
    assert key(boxed[4], "isError", "is_error") and key(boxed[5], "isError", "is_error")
    checks.ids_differ(sidecar, 5)


def test_t9_elsewhere(kind, sidecar):
    answers, pid, _ = mcpclient.call(kind, [("where", {})], sidecar)
    checks.is_elsewhere(json.loads(answers[1]["content"][0]["text"]), pid, sidecar)


def test_t3_context_refused(kind, sidecar, marker):
    answers, _, out = mcpclient.call(kind, [("with_context", {"path": marker.path})], sidecar)
    assert key(answers[1], "isError", "is_error")
    assert "takes an object of the framework" in out
    assert not marker.ran() and not sidecar.calls


def test_t3_context_inline(kind, sidecar, marker):
    answers, pid, _ = mcpclient.call(kind, [("with_context", {"path": marker.path})], sidecar,
                                     CODE_SANDBOX_TOOLS_CONTEXT="inline")
    assert not key(answers[1], "isError", "is_error") and marker.pid() == pid


def test_t13_server_without_main_guard(kind, sidecar):
    # the import of the copy stops where the server would start
    answers, _, out = mcpclient.call(kind, [("add", {"a": 1, "b": 1})], sidecar)
    assert answers[1]["content"][0]["text"] == "2", out[-2000:]
