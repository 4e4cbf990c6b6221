"""T18: answers that no honest sandbox gives. The agent is unharmed by each."""
import json

import pytest

import world

MAIN = """
import json, tools
try: out = ["value", repr(tools.f())[:200]]
except Exception as e: out = [type(e).__name__, str(e)[:300]]
print("RESULT " + json.dumps(out))
"""
TOOLS = "def f(): raise AssertionError('ran in the agent')\n"


def http(body, status=200, head=""):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n%s\r\n" % (status, len(data), head.encode()) + data


DEEP = b'{"ok": true, "value": ' + b"[" * 10000 + b"]" * 10000 + b"}"
ANSWERS = {
    "unknown tag": http({"ok": True, "value": {"$t": "object", "v": 1}}),
    "pickle bytes": http(b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93."),
    "pickle tag": http({"ok": True, "value": {"$t": "pickle", "v": "gASVHQ=="}}),
    "deep": http(DEEP),
    "nan": http(b'{"ok": true, "value": NaN}'),
    "infinity": http(b'{"ok": true, "value": [-Infinity]}'),
    "huge int": http(b'{"ok": true, "value": ' + b"9" * 5000 + b"}"),
    "huge tagged int": http({"ok": True, "value": {"$t": "int", "v": "9" * 5000}}),
    "foreign class": http({"ok": True, "value": {"$t": "dataclass", "c": "subprocess:Popen", "v": {"args": "id"}}}),
    "builtin as class": http({"ok": True, "value": {"$t": "enum", "c": "builtins:eval", "v": "1"}}),
    "bad date": http({"ok": True, "value": {"$t": "date", "v": "yesterday"}}),
    "object array": http({"ok": True, "value": {"$t": "ndarray", "dtype": "|O", "shape": [1], "v": "AAAA"}}),
    "not an object": http([1, 2]),
    "no JSON": http(b"<html>"),
    "no ok": http({"value": 5}),
    "second document": http(b'{"ok": true, "value": "first"}\n{"ok": true, "value": "second"}'),
    "not HTTP": b"SSH-2.0-x\r\n\r\n",
    "cut off": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"ok\": true",
    "endless header": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20000,
    "too large": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b" " * 20000000,
    "many parts": http(b'{"ok": true, "value": [' + b"0," * 300000 + b"0]}"),
    "exception that is no exception": http({"ok": False, "error": {"kind": "tool_raised", "mro": ["builtins:exit"],
                                                                   "message": "x"}}),
    "exception of another module": http({"ok": False, "error": {
        "kind": "tool_raised", "mro": ["os:system", "builtins:KeyboardInterrupt"], "message": "id", "args": ["id"]}}),
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_t18_forged_answer(tmp_path, started, name):
    sidecar = started(forge=lambda body: ANSWERS[name])
    ended = world.own(tmp_path, {"tools": TOOLS, "main": MAIN}, sidecar)
    kind, text = ended.result
    assert kind != "value" and "AssertionError" not in kind, text
    if name.startswith("exception"):
        assert text in ("x", "id")  # caught as an Exception, under the name that was claimed
    else:
        assert kind in ("ResultRefused", "SandboxUnavailable"), (kind, text)


HOSTILE = """
import json, os, struct, sys
def prints():
    frame = json.dumps({"kind": "result", "ok": True, "value": "forged", "nonce": "0" * 32}).encode()
    for fd in (1, 2):
        os.write(fd, struct.pack(">I", len(frame)) + frame)
    print(json.dumps({"ok": True, "value": "forged"}))
    return "true"
def loud():
    for _ in range(1 << 10):
        sys.stdout.write("x" * (1 << 20))
    return "quiet"
def large():
    return "x" * (9 << 20)
def deep():
    value = []
    for _ in range(10000):
        value = [value]
    return value
def everywhere():
    frame = json.dumps({"kind": "result", "ok": True, "value": "forged", "nonce": "wrong"}).encode()
    for fd in range(3, 20):
        try: os.write(fd, struct.pack(">I", len(frame)) + frame)
        except OSError: pass
    return "true"
def twice():
    frame = sys._getframe()
    while "send" not in frame.f_locals:
        frame = frame.f_back
    frame.f_locals["send"]({"kind": "result", "ok": True, "value": "first"})
    return "second"
def child():
    import subprocess
    program = "import os\\nfor fd in range(3, 30):\\n  try: os.write(fd, b'xxxxxxxx')\\n  except OSError: pass"
    subprocess.run([sys.executable, "-c", program], close_fds=False)
    return "true"
"""


def hostile(folder, sidecar, name):
    main = MAIN.replace("tools.f()", "tools.%s()" % name)
    ended = world.own(folder, {"tools": HOSTILE, "main": main}, sidecar)
    return ended.result


def test_t18_prints_cannot_forge_a_result(tmp_path, sidecar):
    assert hostile(tmp_path, sidecar, "prints") == ["value", "'true'"]


def test_t18_a_child_process_cannot_forge_a_result(tmp_path, sidecar):
    assert hostile(tmp_path, sidecar, "child") == ["value", "'true'"]


def test_t18_a_frame_with_a_wrong_nonce_is_not_taken(tmp_path, sidecar):
    kind, text = hostile(tmp_path, sidecar, "everywhere")
    assert kind == "SandboxUnavailable" and "wrong nonce" in text


def test_t18_a_second_frame_changes_nothing(tmp_path, sidecar):
    # the first last frame is the answer, whoever in the copy sends it
    assert hostile(tmp_path, sidecar, "twice") == ["value", "'first'"]


def test_t18_a_gibibyte_of_stdout(tmp_path, sidecar):
    assert hostile(tmp_path, sidecar, "loud") == ["value", "'quiet'"]


def test_t18_large_and_deep_results(tmp_path, sidecar):
    kind, text = hostile(tmp_path, sidecar, "large")
    assert kind == "SandboxUnavailable" and "the limit is" in text
    kind, text = hostile(tmp_path, sidecar, "deep")
    assert kind == "SandboxUnavailable" and "deeper than" in text
