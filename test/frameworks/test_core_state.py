"""State that a call changes and that is lost with its sandbox."""
import world

TOOLS = """
import collections, functools, logging, threading
log = logging.getLogger("x")
todos = {}
done = []
count = 0
lock = threading.Lock()
class Store:
    items = []
    def __init__(self):
        self.seen = {}
store = Store()
@functools.lru_cache(maxsize=None)
def square(n):
    return n * n
def put(name):
    todos[name] = [name]
    return len(todos)
def bump():
    global count
    count += 1
    Store.items.append(1)
    store.seen["x"] = 1
    return count
def pure(n):
    log.setLevel(logging.DEBUG)
    logging.getLogger("y").warning("hello")
    with lock:
        return square(n)
"""


def run(folder, sidecar, body):
    return world.own(folder, {"tools": TOOLS, "main": "import tools\n" + body}, sidecar)


def test_t23_todo_dict_is_warned_by_name_once(tmp_path, sidecar):
    ended = run(tmp_path, sidecar, "tools.put('a'); tools.put('b'); tools.put('c')")
    assert ended.stderr.count("tools:todos") == 1 and "the change is lost" in ended.stderr


def test_t23_counters_and_objects(tmp_path, sidecar):
    ended = run(tmp_path, sidecar, "tools.bump()")
    for name in ("tools:count", "tools:Store", "tools:store"):
        assert name in ended.stderr


def test_t24_lru_cache_and_logging_are_not_counted(tmp_path, sidecar):
    ended = run(tmp_path, sidecar, "assert tools.pure(4) == 16")
    assert ended.code == 0 and "the change is lost" not in ended.stderr, ended.stderr
    assert "hello" in ended.stderr
