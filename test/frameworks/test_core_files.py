"""T17: programs whose code is in no file that a copy could import. T21: what the
hook adds to the start of a program without tools."""
import subprocess
import sys

import pytest

import bench_start
import world
from test_core_start import SAY


NOT_IN_A_FILE = {
    "frozen_app": "sys.frozen = True\ntool = proxy.guard(tools.f, 'test')\n",
    "no_source_file": "exec('def made(path): open(path, \"w\").close()', globals())\ntool = proxy.guard(made, 'test')\n",
    "no_main_file": "del sys.modules['__main__'].__file__\ndef made(path): open(path, 'w').close()\ntool = proxy.guard(made, 'test')\n",
}


@pytest.mark.parametrize("reason", sorted(NOT_IN_A_FILE))
def test_t17_code_that_no_copy_could_import_is_refused(tmp_path, sidecar, marker, reason):
    main = SAY + "from code_sandbox_hook import proxy\n" + NOT_IN_A_FILE[reason] + \
        "print('RESULT ' + json.dumps(say(lambda: tool(%r))))\n" % marker.path
    ended = world.run(world.program(tmp_path, main=main, tools="def f(path): open(path, 'w').close()\n"), sidecar=sidecar)
    kind, text = ended.result
    assert kind == "Unsandboxable" and "cannot run tool" in text and text in ended.stderr
    assert [t["reason"] for t in sidecar.tools().values()] == [reason]
    assert not marker.ran() and not sidecar.calls


ON_STANDARD_INPUT = {
    "function": "def made(path): open(path, 'w').close()\nproxy.guard(made, 'test')(%r)\n",
    "class": "class Made:\n    def run(self, path): open(path, 'w').close()\nmethods.guard_class(Made, ['run'], 'test')\nMade().run(%r)\n",
}


@pytest.mark.parametrize("kind", sorted(ON_STANDARD_INPUT))
def test_t17_program_on_standard_input_is_refused(tmp_path, sidecar, marker, kind):
    program = "from code_sandbox_hook import methods, proxy\n" + ON_STANDARD_INPUT[kind] % marker.path
    env = world.environment(PYTHONPATH=world.HOOK, CODE_SANDBOX_URL=sidecar.url)
    done = subprocess.run([sys.executable, "-"], input=program, env=env, cwd=str(tmp_path), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "Unsandboxable" in done.stderr and "not in a file" in done.stderr
    assert not marker.ran() and not sidecar.calls


def test_t21_start_of_a_program_without_tools(sidecar):
    assert bench_start.more("", sidecar.url, pairs=9) <= bench_start.MOST
