"""Whose code is it, and what happens with a framework of an unknown shape."""
import json

import world

SAY = """
import json, os, sys
def say(f):
    try: return f()
    except BaseException as e: return [type(e).__name__, str(e)]
"""


def installed(folder, package, **files):
    """A package in a folder that counts as site-packages; returns the folder."""
    site = folder / "lib" / "site-packages"
    for name, text in files.items():
        path = site / package / (name + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return site


UNKNOWN = SAY + """
def body(path): open(path, "w").close()
def use():
    import agents.tool
    return agents.tool.%s(body)(sys.argv[1])
print("RESULT " + json.dumps(say(use)))
"""


def unknown(folder, sidecar, marker, name, tool, **env):
    """Runs a tool by a framework whose module has another shape than the patch knows."""
    site = installed(folder, "agents", __init__="", tool=tool)
    return world.run(world.program(folder, main=UNKNOWN % name), marker.path, sidecar=sidecar, path=[str(site)], **env)


def test_refused_unknown_shape_closes_the_door(tmp_path, sidecar, marker):
    # a function_tool that no longer takes what the patch hands on
    shape = "function_tool", "def function_tool(target): return target\n"
    ended = unknown(tmp_path, sidecar, marker, *shape)
    kind, text = ended.result
    assert kind == "Unsandboxable" and "no longer takes 'func'" in text
    assert "cannot be sandboxed" in ended.stderr
    assert not marker.ran() and not sidecar.calls
    audit = unknown(tmp_path, sidecar, marker, *shape, CODE_SANDBOX_TOOLS="audit")
    assert audit.result is None and marker.ran()


def test_refused_unknown_shape_without_a_door_stops_the_import(tmp_path, sidecar, marker):
    ended = unknown(tmp_path, sidecar, marker, "another_name", "def another_name(f): return f\n")
    kind, text = ended.result
    assert kind == "ImportError" and "has no function_tool" in text
    assert not marker.ran() and not sidecar.calls


def test_own_package_with_a_framework_s_name_is_left_alone(tmp_path, sidecar):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "__init__.py").write_text("")
    (tmp_path / "agents" / "tool.py").write_text("def mine(): return 5\n")
    main = "import json\nfrom agents.tool import mine\nprint('RESULT ' + json.dumps(mine()))\n"
    ended = world.run(world.program(tmp_path, main=main), sidecar=sidecar)
    assert ended.result == 5 and ended.stderr == ""


THIRD = "import os\ndef lib(): return os.getpid()\ndef deco(f):\n    import functools\n    @functools.wraps(f)\n" \
        "    def inner(*a): return f(*a)\n    return inner\n"
USES = SAY + """
from code_sandbox_hook import proxy
import third
@third.deco
def mine():
    return os.getpid()
lib, own = proxy.guard(third.lib, "test"), proxy.guard(mine, "test")
if __name__ == "__main__":
    print("RESULT " + json.dumps([lib is third.lib, lib() == os.getpid(), own() == os.getpid()]))
"""


def test_t4_library_function_stays_and_decorated_own_function_leaves(tmp_path, sidecar):
    site = installed(tmp_path, "third", __init__=THIRD)
    ended = world.run(world.program(tmp_path, main=USES), sidecar=sidecar, path=[str(site)])
    assert ended.result == [True, True, False], ended.stderr
    assert sidecar.tools()["lib"]["decision"] == "stays"


def test_own_distribution_installed_by_pip_is_own(tmp_path, sidecar):
    site = installed(tmp_path, "third", __init__=THIRD)
    info = site / "third-1.0.dist-info"
    info.mkdir()
    (info / "RECORD").write_text("third/__init__.py,,\n")
    (info / "direct_url.json").write_text(json.dumps({"url": "file:///src/third", "dir_info": {}}))
    program = world.program(tmp_path, main=USES)
    assert world.run(program, sidecar=sidecar, path=[str(site)]).result == [False, False, False]
    (info / "direct_url.json").unlink()
    ended = world.run(program, sidecar=sidecar, path=[str(site)], CODE_SANDBOX_FIRST_PARTY="third")
    assert ended.result == [False, False, False]


PLACES = SAY + """
import functools
from code_sandbox_hook import proxy
class Service:
    def __init__(self, n): self.n = n
    def times(self, x): return [self.n * x, os.getpid()]
class Free:
    def twice(self, x): return [2 * x, os.getpid()]
service = Service(3)
def scale(factor, x): return [factor * x, os.getpid()]
six = proxy.guard(functools.partial(scale, 6), "test")
lam = proxy.guard(lambda x: [x + 1, os.getpid()], "test")
def make(n):
    def f(x): return [n + x, os.getpid()]
    return f
def listed(x): return [x, os.getpid()]
if __name__ == "__main__":
    def guarded(x): return [x, os.getpid()]
    at_run = [proxy.guard(service.times, "test"), proxy.guard(Free().twice, "test"), proxy.guard(listed, "test")]
    bad = [proxy.guard(make(9), "test"), proxy.guard(Service(4).times, "test"), proxy.guard(guarded, "test"),
           proxy.guard(functools.partial(scale, 7), "test"), proxy.guard(lambda x: [x, os.getpid()], "test"),
           proxy.guard(len, "test")]
    good = [say(lambda f=f: f(2)) for f in [six, lam] + at_run]
    print("RESULT " + json.dumps([os.getpid(), good, [say(lambda f=f: f(2)) for f in bad[:-1]], type(six).__name__,
                                  bad[-1] is len]))
"""


def test_where_functions_run(tmp_path, sidecar):
    pid, good, bad, kind, untouched = world.run(world.program(tmp_path, main=PLACES), sidecar=sidecar).result
    assert [g[0] for g in good] == [12, 3, 6, 4, 2] and pid not in [g[1] for g in good]
    assert kind == "partial" and untouched
    for refusal in bad:
        assert refusal[0] == "Unsandboxable", refusal


REFUSED = SAY + """
import functools, threading
from code_sandbox_hook import methods, proxy
def mark(folder, name): open(os.path.join(folder, name), "w").close()
class Service:
    def __init__(self, n): self.n = n
    def work(self, folder): mark(folder, "state_%d" % self.n)
class Tool:
    def __init__(self, n): self.n = n
    def run(self, folder): mark(folder, "class_%d" % self.n)
methods.guard_class(Tool, ["run"], "test")
def make(name):
    def f(folder): mark(folder, name)
    return f
def takes(folder, value): mark(folder, "argument")
def sandboxed(f): return proxy.guard(f, "test")
@sandboxed
def fine(folder): mark(folder, "fine")
taking = proxy.guard(takes, "test")
if __name__ == "__main__":
    FOLDER = sys.argv[1]
    def guarded(folder): mark(folder, "under_guard")
    calls = {
        "closure": lambda: proxy.guard(make("closure"), "test")(FOLDER),
        "under_guard": lambda: proxy.guard(guarded, "test")(FOLDER),
        "lambda": lambda: proxy.guard(lambda folder: mark(folder, "lambda"), "test")(FOLDER),
        "partial": lambda: proxy.guard(functools.partial(make("partial"), FOLDER), "test")(),
        "state": lambda: proxy.guard(Service(4).work, "test")(FOLDER),
        "class": lambda: Tool(5).run(FOLDER),
        "builtin_argument": lambda: taking(FOLDER, threading.Lock()),
    }
    said = {name: say(call) for name, call in calls.items()}
    said["fine"] = say(lambda: fine(FOLDER))
    print("RESULT " + json.dumps(said))
"""


def test_refused_calls_ran_nowhere(tmp_path, sidecar):
    folder = tmp_path / "marks"
    folder.mkdir()
    said = world.run(world.program(tmp_path, main=REFUSED), folder, sidecar=sidecar).result
    assert said.pop("fine") is None
    assert {name: kind for name, (kind, _) in said.items()} == {name: "Unsandboxable" for name in said}
    # The one mark shows that a body that runs, here or in a copy, leaves one.
    assert sorted(p.name for p in folder.iterdir()) == ["fine"]
