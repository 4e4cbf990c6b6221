"""How the hook comes into a process, and how a program's import goes in a copy."""
import subprocess
import sys
import time

import pytest

import checks
import world

SAY = """
import asyncio, json, os, sys, time
import tools
def say(f):
    try: return f()
    except Exception as e: return [type(e).__name__, str(e)]
"""


def test_t16_both_orders_each_once(tmp_path, sidecar):
    user = tmp_path / "user"
    user.mkdir()
    (user / "sitecustomize.py").write_text(
        "import sys\nsys.user_ran = getattr(sys, 'user_ran', 0) + 1\n"
        # as tracing tools do: hand on to the next one
        "import importlib.machinery, importlib.util, os\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "rest = [p for p in sys.path if os.path.abspath(p or '.') != here]\n"
        "spec = importlib.machinery.PathFinder.find_spec('sitecustomize', rest)\n"
        "if spec and not getattr(sys, 'handed_on', False):\n"
        "    sys.handed_on = True\n"
        "    module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module)\n")
    (user / "helper.py").write_text("VALUE = 7\n")
    main = SAY + "import helper\nprint('RESULT ' + json.dumps([sys.user_ran, helper.VALUE, tools.f()[0] != os.getpid(), " \
                 "sum(type(f).__name__ == 'Finder' and type(f).__module__.startswith('code_sandbox') " \
                 "for f in sys.meta_path)]))\n"
    program = world.program(tmp_path, main=main, tools="import os, helper\ndef f(): return [os.getpid()]\n")
    for order in ([world.HOOK, str(user)], [str(user), world.HOOK]):
        ended = world.run(program, path=order, CODE_SANDBOX_URL=sidecar.url, CODE_SANDBOX_TOOL_FUNCTIONS="tools:*")
        assert ended.result == [1, 7, True, 1] and ended.stderr == ""


MOVED = SAY + """
import helper, subprocess
child = subprocess.run([sys.executable, '-c', 'import helper, json, os, sys; print(json.dumps([helper.VALUE, os.environ["PYTHONPATH"], sys.path]))'],
                       stdout=subprocess.PIPE, check=True)
child = json.loads(child.stdout)
print('RESULT ' + json.dumps([sys.user_ran, helper.VALUE, sys.path[1:5], os.environ['PYTHONPATH'], child[0],
                              child[1] == os.environ['PYTHONPATH'], child[2][1:] == sys.path[1:], tools.f()[0] != os.getpid()]))
"""


@pytest.mark.parametrize("way", ["the image's", "the kubelet's"])
def test_t16_the_path_that_ours_replaced(tmp_path, sidecar, way):
    """In a pod PYTHONPATH is ours alone; what was there is written elsewhere."""
    user, other, image = tmp_path / "user", tmp_path / "other", tmp_path / "image"
    for folder in (user, other, image):
        folder.mkdir()
    (user / "sitecustomize.py").write_text("import sys\nsys.user_ran = getattr(sys, 'user_ran', 0) + 1\n")
    (other / "helper.py").write_text("VALUE = 7\n")
    path = "%s:%s:%s" % (user, other, user)
    if way == "the image's":
        (image / "PYTHONPATH").write_text(path)
        told = {"CODE_SANDBOX_IMAGE_ENV": str(image)}
    else:
        told = {"CODE_SANDBOX_PYTHONPATH": path}
    program = world.program(tmp_path, main=MOVED, tools="import os, helper\ndef f(): return [os.getpid()]\n")
    ended = world.run(program, path=[world.HOOK], CODE_SANDBOX_URL=sidecar.url, CODE_SANDBOX_TOOL_FUNCTIONS="tools:*", **told)
    user_ran, value, sys_path, variable, of_child, same, same_path, elsewhere = ended.result
    assert (user_ran, value, of_child, elsewhere) == (1, 7, 7, True) and ended.stderr == ""
    assert sys_path[:3] == [world.HOOK, str(user), str(other)] and sys_path[3] not in (str(user), str(other))
    assert variable == world.HOOK + ":" + path and same and same_path


def test_t16_a_path_that_nobody_replaced(tmp_path):
    """An image without one, and a pod with one of its own: nothing is added."""
    (tmp_path / "empty").mkdir()
    main = "import json, os, sys\nprint('RESULT ' + json.dumps([os.environ['PYTHONPATH'], '/elsewhere' in sys.path]))\n"
    program = world.program(tmp_path, main=main)
    ended = world.run(program, path=[world.HOOK], CODE_SANDBOX_IMAGE_ENV=str(tmp_path / "empty"))
    assert ended.result == [world.HOOK, False] and ended.stderr == ""
    ended = world.run(program, path=[world.HOOK, "/its/own"], CODE_SANDBOX_PYTHONPATH="/elsewhere")
    assert ended.result == [world.HOOK + ":/its/own", False] and ended.stderr == ""


def test_t16_failing_sitecustomize_of_the_user_is_told_as_without_us(tmp_path):
    user = tmp_path / "user"
    user.mkdir()
    (user / "sitecustomize.py").write_text("raise RuntimeError('mine')\n")
    program = world.program(tmp_path, main="print('RESULT 1')")
    plain = world.run(program, path=[str(user)])
    hooked = world.run(program, path=[world.HOOK, str(user)])
    assert plain.result == hooked.result == 1
    assert "mine" in hooked.stderr and "mine" in plain.stderr


def test_t16_isolated_interpreter_has_no_hook(tmp_path, sidecar):
    program = world.program(tmp_path, main=SAY.replace("import tools", "sys.path.insert(0, sys.argv[1])\nimport tools")
                            + "print('RESULT ' + json.dumps(tools.f() == os.getpid()))",
                            tools="import os\ndef f(): return os.getpid()\n")
    ended = world.run(program, str(tmp_path), sidecar=sidecar, flags=("-I",), CODE_SANDBOX_TOOL_FUNCTIONS="tools:*")
    assert ended.result is True and not sidecar.boots, "the sidecar must see that nobody said hello"


def test_start_loads_no_socket_and_no_thread(tmp_path, sidecar):
    main = "import json, sys, threading\nprint('RESULT ' + json.dumps([m for m in ('socket', 'asyncio', 'ssl', 'json.decoder', " \
           "'http.client', 'code_sandbox_hook.proxy') if m in sys.modules and m != 'json.decoder'] + " \
           "[threading.active_count()]))"
    ended = world.run(world.program(tmp_path, main=main), sidecar=sidecar)
    assert ended.result == [1] and ended.stdout.count("\n") == 1 and ended.stderr == ""


ENDINGS = {
    "asyncio.run without a guard": "asyncio.run(go())",
    "loop of its own": "asyncio.new_event_loop().run_until_complete(go())",
    "plain call": "out()",
    "sleep": "out()\nif '__mp_main__' == __name__:\n    time.sleep(3600)",
    "server": "out()\nimport socket\ns = socket.socket()\ntry:\n    s.bind(('127.0.0.1', 59999))\nexcept OSError:\n    pass",
    "exit": "out()\nsys.exit(0)",
}


@pytest.mark.parametrize("name", sorted(ENDINGS))
def test_t13_main_without_guard(tmp_path, sidecar, name):
    main = """
import asyncio, json, os, sys, time
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tools
KEY = "k"
def helper(x):
    return [x * 2, os.getpid(), KEY]
tools.register(helper)
def out():
    print("RESULT " + json.dumps([tools.REGISTERED["helper"](4), os.getpid()]))
async def go():
    out()
""" + ENDINGS[name] + "\n"
    registry = """
from code_sandbox_hook import proxy
REGISTERED = {}
def register(fn):
    REGISTERED[fn.__name__] = proxy.guard(fn, "test")
"""
    program = world.program(tmp_path, main=main, tools=registry)
    begin = time.monotonic()
    (value, pid, key), agent = world.run(program, sidecar=sidecar).result
    assert value == 8 and key == "k" and pid != agent and pid == sidecar.calls[0]["pid"]
    assert time.monotonic() - begin < 20


def test_t14_import_needs_keys_and_the_failing_tool_names_them(tmp_path, sidecar):
    tools = """
import os
class Client:
    def __init__(self):
        self.key = os.environ["OPENAI_API_KEY"]
        if not self.key: raise ValueError("no key")
client = Client()
url = os.environ["DB_URL"]
port = int(os.environ["PORT"])
debug = os.environ["DEBUG"].lower() in ("true", "false")
def pure(): return 5
def connect():
    raise ConnectionError("cannot connect to " + url)
def late():
    raise ValueError("bad key " + os.environ["ANTHROPIC_API_KEY"][:3])
def unrelated(): raise ValueError("nothing to do with it")
"""
    main = SAY + "print('RESULT ' + json.dumps([say(getattr(tools, n)) for n in ('pure', 'connect', 'late', 'unrelated')]))"
    pure, connect, late, unrelated = world.own(tmp_path, {"tools": tools, "main": main}, sidecar).result
    assert pure == 5
    assert "DB_URL" in connect[1] and "tool-env-allow" in connect[1] and connect[0] == "ConnectionError"
    assert "ANTHROPIC_API_KEY is withheld" in late[1]
    assert unrelated == ["ValueError", "nothing to do with it"]


def test_t14_refused_import_failed_names_the_variable(tmp_path, sidecar, marker):
    tools = """
import os
if not os.environ["OPENAI_API_KEY"].startswith("sk-"):
    raise RuntimeError("malformed key")
def f(path): open(path, "w").close()
"""
    main = SAY + "print('RESULT ' + json.dumps(say(lambda: tools.f(%r))))" % marker.path
    kind, text = world.own(tmp_path, {"tools": tools, "main": main}, sidecar).result
    assert kind == "Unsandboxable" and "malformed key" in text and "OPENAI_API_KEY" in text
    assert not marker.ran()


def test_t15_import_that_connects_fails_at_once(tmp_path, sidecar):
    tools = """
import os, socket, subprocess, sys, time, urllib.request
begin = time.monotonic()
errors = []
if os.environ["OPENAI_API_KEY"] == "code-sandbox-redacted":
    for attempt in (lambda: urllib.request.urlopen("http://192.0.2.1/x", timeout=60),
                    lambda: socket.create_connection(("192.0.2.1", 80), 60),
                    lambda: socket.getaddrinfo("some.host.invalid", 443),
                    lambda: subprocess.run(["true"])):
        try: attempt()
        except Exception as e: errors.append(type(e).__name__)
took = time.monotonic() - begin
def report(): return [errors, took, subprocess.run(["true"]).returncode]
"""
    main = SAY + "print('RESULT ' + json.dumps(say(tools.report)))"
    errors, took, process = world.own(tmp_path, {"tools": tools, "main": main}, sidecar).result
    assert errors == ["URLError", "ConnectionRefusedError", "gaierror", "PermissionError"]
    assert took < 1 and process == 0


def test_main_of_a_package(tmp_path, sidecar):
    # a closure that is made while the package's __main__ runs
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "tools.py").write_text("from code_sandbox_hook import proxy\n"
                                      "def tool(fn): return proxy.guard(fn, 'test')\n")
    (package / "__main__.py").write_text(
        "import json, os\nfrom .tools import tool\n"
        "def make(n):\n    def f(): return [n, os.getpid()]\n    return f\n"
        "one, two = tool(make(1)), tool(make(2))\n"
        "if __name__ == '__main__':\n    print('RESULT ' + json.dumps([one(), two(), os.getpid()]))\n")
    env = world.environment(PYTHONPATH=world.HOOK, CODE_SANDBOX_URL=sidecar.url)
    done = subprocess.run([sys.executable, "-m", "pkg"], env=env, cwd=str(tmp_path), capture_output=True, text=True,
                          timeout=60)
    one, two, pid = world.Ended(done).result
    assert [one[0], two[0]] == [1, 2] and len({one[1], two[1], pid}) == 3


def test_fork_says_hello_anew(tmp_path, sidecar):
    main = SAY + """
first = tools.f()
pid = os.fork()
if pid == 0:
    print("RESULT " + json.dumps([first, tools.f(), os.getpid()]), flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""
    first, second, child = world.own(tmp_path, {"tools": "import os\ndef f(): return os.getpid()\n", "main": main},
                                     sidecar).result
    checks.apart(sidecar, [first, second])
    assert child not in (first, second)
    assert {b["pid"] for b in sidecar.boots.values()} >= {child} and len(sidecar.boots) == 2


def test_threads_and_loops_share_nothing(tmp_path, sidecar):
    main = SAY + """
import concurrent.futures
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    got = list(pool.map(lambda n: tools.f(n), range(8)))
print("RESULT " + json.dumps(got))
"""
    got = world.own(tmp_path, {"tools": "import os\ndef f(n): return [n, os.getpid()]\n", "main": main}, sidecar).result
    assert [g[0] for g in got] == list(range(8))
    checks.apart(sidecar, [g[1] for g in got])


def test_environment_crosses_by_list(tmp_path, sidecar):
    tools = "import os\ndef env(): return dict(os.environ)\n"
    main = SAY + "print('RESULT ' + json.dumps(tools.env()))"
    env = world.own(tmp_path, {"tools": tools, "main": main}, sidecar, LOG_LEVEL="info", LC_ALL="C.UTF-8",
                    MY_FLAG="yes-please", MY_TOKEN="AKIAABCDEFGHIJKLMNOP", FORCED="AKIAABCDEFGHIJKLMNOP",
                    CODE_SANDBOX_TOOL_ENV_ALLOW="MY_*,!FORCED").result
    assert env["LOG_LEVEL"] == "info" and env["LC_ALL"] == "C.UTF-8" and env["MY_FLAG"] == "yes-please"
    assert env["MY_TOKEN"] == "code-sandbox-redacted" and env["FORCED"] == "AKIAABCDEFGHIJKLMNOP"
    assert env["SETTINGS_JSON"] == "{}" and env["DEBUG"] == "false"
    assert env["TOKEN_FILE"].startswith("/nonexistent/") and not [n for n in env if n.startswith("CODE_SANDBOX_")]
    checks.no_secret(str(env))


@pytest.mark.parametrize("mode, calls", [("audit", 0), ("off", 0), ("enforce", 1)])
def test_modes(tmp_path, started, mode, calls):
    sidecar = started(policy={"mode": mode})
    main = SAY + "print('RESULT ' + json.dumps(tools.f() == os.getpid()))"
    result = world.own(tmp_path, {"tools": "import os\ndef f(): return os.getpid()\n", "main": main}, sidecar).result
    assert result is (mode != "enforce") and len(sidecar.calls) == calls


def test_audit_counts_what_enforce_would_have_moved(tmp_path, started):
    sidecar = started(policy={"mode": "audit"})
    tools = "import os\ndef f(): return os.getpid()\ndef kept(): return 1\ndef idle(): return 1\n"
    main = SAY + """
first = [tools.f() == os.getpid() for _ in range(5)] + [tools.kept() == 1]
pid = os.fork()
if pid == 0:
    tools.f()
    sys.exit(0)
os.waitpid(pid, 0)
print("RESULT " + json.dumps(all(first)))
"""
    ended = world.own(tmp_path, {"tools": tools, "main": main}, sidecar, CODE_SANDBOX_TOOLS_EXCLUDE="kept")
    counts = [{t["tool"]: t["audited"] for t in b["tools"]} for b in sidecar.boots.values()]
    assert ended.result is True and not sidecar.calls
    # A tool that the settings keep in the agent is not counted; the child counts its own calls only.
    counts.sort(key=lambda c: -c["f"])  # a child's pid may be the lower one
    assert counts == [{"f": 5, "kept": 0, "idle": 0}, {"f": 1, "kept": 0, "idle": 0}]


def test_exclude_and_include(tmp_path, sidecar):
    tools = "import os\ndef one(): return os.getpid()\ndef two(): return os.getpid()\n"
    main = SAY + "print('RESULT ' + json.dumps([tools.one() == os.getpid(), tools.two() == os.getpid()]))"
    ended = world.own(tmp_path, {"tools": tools, "main": main}, sidecar, CODE_SANDBOX_TOOLS_EXCLUDE="on*")
    assert ended.result == [True, False] and "'one' runs in the agent" in ended.stderr
    ended = world.own(tmp_path, {"tools": tools, "main": main}, sidecar, CODE_SANDBOX_TOOLS_INCLUDE="tools:one")
    assert ended.result == [False, True]


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_word_is_the_default(tmp_path, sidecar, empty):
    """As the injector sets them, where the policy is silent."""
    main = SAY + """
from code_sandbox_hook import policy, runtime
words = {n: EMPTY for n in ["CODE_SANDBOX_URL", "CODE_SANDBOX_TOKEN"] + list(policy.SETTINGS.values())}
here = runtime.State(words)
print('RESULT ' + json.dumps([tools.f() == os.getpid(), here.settings, here.place.header, here.place.token]))
""".replace("EMPTY", repr(empty))
    names = ("TOOLS", "TOOLS_INCLUDE", "TOOLS_EXCLUDE", "TOOLS_CONTEXT", "TOOL_ENV_ALLOW", "TOOL_TIMEOUT", "ALLOW_RESULTS",
             "FIRST_PARTY", "TOKEN", "CONTAINER", "IMAGE_ENV", "PYTHONPATH")
    ended = world.own(tmp_path, {"tools": "import os\ndef f(): return os.getpid()\n", "main": main}, sidecar,
                      **{"CODE_SANDBOX_" + name: empty for name in names})
    assert ended.result == [False, {}, "127.0.0.1:8900", ""] and ended.stderr == "" and len(sidecar.calls) == 1


def test_environment_allowed_by_the_hello_answer(tmp_path, started):
    sidecar = started(policy={"env_allow": ["MY_FLAG"]})
    tools = "import os\ndef env(): return [os.environ['MY_FLAG'], os.environ['OPENAI_API_KEY']]\n"
    main = SAY + "print('RESULT ' + json.dumps(tools.env()))"
    result = world.own(tmp_path, {"tools": tools, "main": main}, sidecar, MY_FLAG="yes-please").result
    assert result == ["yes-please", "code-sandbox-redacted"]


def test_boot_record_holds_no_secret(tmp_path, sidecar):
    main = SAY + "print('RESULT ' + json.dumps(tools.f()))"
    world.own(tmp_path, {"tools": "def f(): return 1\n", "main": main}, sidecar, "--token", "sk-argument-0123456789")
    for boot in sidecar.boots.values():
        checks.no_secret(str(boot))
        assert "sk-argument" not in str(boot) and boot["env"]["names"]["DB_URL"] == {"shape": "url", "scheme": "postgres"}
    assert sidecar.boots


def test_boot_record_tells_what_calls_will_send(tmp_path, sidecar):
    tools = "def one(): return 1\ndef two(a=2): return a\ndef three(): return 3\n"
    main = SAY + "tools.one(); tools.two(); print('RESULT 1')"
    world.own(tmp_path, {"tools": tools, "main": main}, sidecar, CODE_SANDBOX_TOOLS_EXCLUDE="three")
    told = {name: tool.get("target") for name, tool in sidecar.tools().items()}
    sent = {call["tool"]: call["target"] for call in sidecar.calls}
    assert sorted(sent) == ["one", "two"] and told == {"one": sent["one"], "two": sent["two"], "three": None}


def test_boot_record_tells_of_a_few_only(tmp_path, sidecar):
    tools = "".join("def f%d(): return %d\n" % (n, n) for n in range(9))
    world.own(tmp_path, {"tools": tools, "main": SAY + "tools.f8(); print('RESULT 1')"}, sidecar)
    assert [name for name, tool in sorted(sidecar.tools().items()) if tool.get("target")] == ["f0", "f1"]
