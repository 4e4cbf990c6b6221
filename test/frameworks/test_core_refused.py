"""What is refused, a test a reason, named after it: the sentence, and by a marker
that the body did not run; where it had to run first, that it ran in the copy."""
import pytest

import world

MAIN = """
import dataclasses, functools, json, os, sys, threading
import tools
from code_sandbox_hook import proxy
def say(f):
    try: return ["value", repr(f())[:100]]
    except Exception as e: return [getattr(e, "reason", "") or getattr(e, "code", ""), str(e)]
if __name__ == "__main__":
    PATH = sys.argv[1]
    @dataclasses.dataclass
    class Late:
        n: int
    print("RESULT " + json.dumps(say(lambda: CALL)))
"""
TOOLS = """
import os, threading
def _mark(path):
    with open(path, "w") as file: file.write(str(os.getpid()))
def f(path): _mark(path)
def takes(path, value): _mark(path)
"""
# Reason -> more of tools.py, the call, what the sentence says.
REASONS = {
    "context_parameter": ("def g(path, ctx: 'RunContext'): _mark(path)", "tools.g(PATH, None)", "take plain values instead"),
    "steering_result": ("def g(path) -> 'Command': _mark(path)", "tools.g(PATH)", "allow-results"),
    "made_at_run_time": ("def make():\n    def g(path): _mark(path)\n    return g\n", "proxy.guard(tools.make.__wrapped__(), 'test')(PATH)",
                         "create it at module level"),
    "state": ("from code_sandbox_hook import methods\nclass Service:\n    def __init__(self, n): self.n = n\n"
              "    def g(self, path): _mark(path)\nmethods.guard_class(Service, ['g'], 'test')\n",
              "tools.Service(4).g(PATH)", "make the object at module level"),
    "code_mismatch": ("def _change():\n    text = open(__file__).read()\n    open(__file__, 'w').write(text.replace("
                      "'def f(path): _mark(path)', 'def f(path): return _mark(path)'))\n",
                      "tools._change() or tools.f(PATH)", "other code in the copy"),
    "import_failed": ("if os.environ['OPENAI_API_KEY'][:3] != 'sk-': raise RuntimeError('malformed key')", "tools.f(PATH)",
                      "OPENAI_API_KEY"),
    "argument": ("", "tools.takes(PATH, Late(1))", "Late"),
}


def call(folder, sidecar, more, expression, path):
    """The reason and the sentence of one call."""
    files = {"tools": TOOLS + more, "main": MAIN.replace("CALL", expression)}
    return world.own(folder, files, sidecar, path)


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_refused(tmp_path, sidecar, marker, reason):
    more, expression, says = REASONS[reason]
    ended = call(tmp_path, sidecar, more, expression, marker.path)
    kind, text = ended.result
    assert kind == reason and says in text, text
    assert not marker.ran()


TOO_LARGE = {
    "bytes": ("'x' * (9 << 20)", "the limit is"),
    "depth": ("functools.reduce(lambda inner, _: [inner], range(100), 1)", "deeper than 64 levels"),
    "parts": ("[0] * 300000", "more parts than the limit"),
    "digits": ("10 ** 5000", "more than 3900 digits"),
}


@pytest.mark.parametrize("bound", sorted(TOO_LARGE))
def test_refused_argument_too_large(tmp_path, sidecar, marker, bound):
    value, says = TOO_LARGE[bound]
    kind, text = call(tmp_path, sidecar, "", "tools.takes(PATH, %s)" % value, marker.path).result
    assert kind == "too_large" and says in text
    assert not marker.ran() and not sidecar.calls


@pytest.mark.parametrize("bound", sorted(TOO_LARGE))
def test_refused_result_too_large_ran_in_the_copy_alone(tmp_path, sidecar, marker, bound):
    value, says = TOO_LARGE[bound]
    more = "import functools\ndef g(path):\n    _mark(path)\n    return %s\n" % value
    kind, text = call(tmp_path, sidecar, more, "tools.g(PATH)", marker.path).result
    assert kind == "result_too_large" and says in text
    assert marker.ran() and [marker.pid()] == [c["pid"] for c in sidecar.calls]


def test_refused_result_type_ran_in_the_copy_alone(tmp_path, sidecar, marker):
    more = "def g(path):\n    _mark(path)\n    return threading.Lock()\n"
    kind, text = call(tmp_path, sidecar, more, "tools.g(PATH)", marker.path).result
    assert kind == "result_type" and "cannot send a _thread.lock" in text
    assert marker.ran() and [marker.pid()] == [c["pid"] for c in sidecar.calls]
