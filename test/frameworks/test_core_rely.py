"""What a tool body may rely on: a test for each point of that list in
docs/tool-calls.md, named after it. Only the network has its test elsewhere,
beside the real service (TestRelyNetwork in test/agents)."""
import os

import world

MAIN = """
import json, os, sys, time
import tools
if __name__ == "__main__":
    print("RESULT " + json.dumps(%s))
"""


def run(folder, sidecar, tools, expression, *args, **env):
    return world.own(folder, {"tools": tools, "main": MAIN % expression}, sidecar, *args, **env)


def test_rely_globals_are_as_the_import_made_them(tmp_path, sidecar):
    tools = "import os\nSETTING = ['imported']\nTABLE = {n: n * n for n in range(3)}\ndef f(): return [SETTING, TABLE[2], os.getpid()]\n"
    expression = "[setattr(tools, 'SETTING', ['changed']), tools.f(), tools.SETTING, os.getpid()]"
    _, (setting, square, pid), agents, agent = run(tmp_path, sidecar, tools, expression).result
    assert setting == ["imported"] and square == 4
    assert agents == ["changed"] and pid != agent


def test_rely_memory_is_not_seen_by_the_next_call(tmp_path, sidecar):
    tools = "import sys\nSEEN = []\ndef f(n):\n    SEEN.append(n)\n    sys.left = getattr(sys, 'left', []) + [n]\n    return [SEEN, sys.left]\n"
    ended = run(tmp_path, sidecar, tools, "[tools.f(1), tools.f(2), tools.SEEN]")
    assert ended.result == [[[1], [1]], [[2], [2]], []]
    assert ended.stderr.count("tool 'f' changed tools:SEEN") == 1, ended.stderr


def test_rely_variables_are_there_by_name(tmp_path, sidecar):
    tools = "import os\ndef f(): return sorted(os.environ)\ndef g(): raise ValueError(os.environ['OPENAI_API_KEY'])\n"
    main = MAIN.replace("import tools\n", "import tools\ndef say(f):\n    try: return f()\n    except Exception as e: return str(e)\n")
    files = {"tools": tools, "main": main % "[tools.f(), say(tools.g)]"}
    names, said = world.own(tmp_path, files, sidecar).result
    assert set(world.SECRETS) <= set(names)
    assert "OPENAI_API_KEY is withheld from the sandbox" in said and "tool-env-allow" in said


def test_rely_prints_appear_in_the_agent_s_output(tmp_path, sidecar):
    tools = "import sys\ndef f():\n    print('to out')\n    print('to err', file=sys.stderr)\n"
    ended = run(tmp_path, sidecar, tools, "tools.f()")
    assert ended.stdout == "to out\nRESULT null\n" and ended.stderr == "to err\n"


def test_rely_prints_stay_off_an_mcp_server_s_protocol(tmp_path, sidecar):
    (tmp_path / "mcp" / "server").mkdir(parents=True)
    for name in ("__init__.py", "server/__init__.py", "server/stdio.py"):
        (tmp_path / "mcp" / name).write_text("")
    ended = run(tmp_path, sidecar, "import mcp.server.stdio\ndef f(): print('to out')\n", "tools.f()")
    assert ended.stdout == "RESULT null\n" and ended.stderr == "to out\n"


INSIDE = """
import asyncio, os, subprocess, sys, tempfile, threading
async def f(n):
    got = []
    thread = threading.Thread(target=lambda: got.append("thread"))
    thread.start()
    await asyncio.gather(*[asyncio.sleep(0.01) for _ in range(n)])
    thread.join()
    got.append(subprocess.run([sys.executable, "-c", "print('process')"], stdout=subprocess.PIPE).stdout.decode().strip())
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("file")
        file.seek(0)
        got.append(file.read())
    return got + [os.getpid()]
"""


def test_rely_await_threads_processes_and_temporary_files(tmp_path, sidecar):
    result = run(tmp_path, sidecar, INSIDE, "[__import__('asyncio').run(tools.f(3)), os.getpid()]").result
    assert result[0][:-1] == ["thread", "process", "file"] and result[0][-1] != result[1]


def test_rely_background_threads_end_with_the_call(tmp_path, sidecar, marker):
    tools = """
import threading, time
def f(path):
    def late():
        time.sleep(1)
        open(path, "w").close()
    threading.Thread(target=late).start()
    return "returned"
"""
    result = run(tmp_path, sidecar, tools, "[tools.f(sys.argv[1]), time.sleep(2), os.path.exists(sys.argv[1])]", marker.path).result
    assert result == ["returned", None, False]
    assert not sidecar.alive() and not os.path.exists(marker.path)
