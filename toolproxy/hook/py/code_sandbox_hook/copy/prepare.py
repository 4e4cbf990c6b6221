"""Makes this interpreter ready: as the boot record says, and as no further."""
import importlib
import os
import sys
import traceback
import types

from .. import finder
from ..frameworks import table
from . import environment, guards

MAIN = "__mp_main__"


class Prepared(object):
    """How the import went. It matters only when the function is not found, or fails."""

    def __init__(self):
        self.error = ""
        self.stopped = ""
        self.reads = []


def prepare(boot, target):
    """Imports what defines the target's function. Never raises for what the
    program does; Prepared says it."""
    done = Prepared()
    _interpreter(boot)
    guards.GUARDS.arm()
    try:
        hooks = table.hooks(os.environ.get("CODE_SANDBOX_TOOL_FUNCTIONS", ""))
        hooks.update({name: guards.GUARDS.on_module(names) for name, names in guards.SERVERS.items()})
        finder.install(hooks)
        _user_sitecustomize()
        _import(boot, target)
    except guards.StopImport:
        pass
    except SystemExit as error:
        done.stopped = "the program ended with exit code %r" % (error.code,)
    except BaseException:
        done.error = _trace()
    finally:
        guards.GUARDS.disarm()
    done.stopped = done.stopped or guards.GUARDS.stopped
    done.reads = [name for name in environment.READS.names() if name in environment.READS.weighty]
    environment.READS.forget()
    return done


def _interpreter(boot):
    environment.install(boot.get("env", {}).get("names") or {})
    for name, value in (boot.get("env", {}).get("values") or {}).items():
        os.environ.setdefault(name, value)
    try:
        os.chdir(boot.get("cwd") or os.sep)
    except OSError:  # the folder is not in the copy; imports go by sys.path
        pass
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    known = [entry for entry in boot.get("sys_path") or [] if isinstance(entry, str)]
    sys.path[:] = known + [here]
    sys.argv[:] = [boot.get("argv0") or ""]
    importlib.invalidate_caches()


def _user_sitecustomize():
    """Runs the user's own sitecustomize, as the agent's interpreter did at its start."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    loaded = os.path.realpath(getattr(sys.modules.get("sitecustomize"), "__file__", None) or os.sep)
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    spec = PathFinder.find_spec("sitecustomize", [e for e in sys.path if os.path.realpath(e) != os.path.realpath(here)])
    if spec is None or spec.loader is None or os.path.realpath(spec.origin or os.sep) == loaded:
        return
    module = sys.modules["sitecustomize"] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception:  # as the site module does
        pass


def _import(boot, target):
    name = target.get("module") or ""
    place = target.get("instance") or {}
    from_main = [n for n in (place.get("path"), place.get("construct")) if str(n or "").startswith("__main__:")]
    if name == "__main__" or from_main:
        run_main(boot.get("main") or {})
    if name != "__main__":
        importlib.import_module(name)


def run_main(main):
    """Runs the main module under another name, so that its main guard is false."""
    if MAIN in sys.modules:
        return
    if main.get("kind") == "module":
        from importlib.util import find_spec
        spec = find_spec(main["name"])
        if spec is None or spec.loader is None:
            raise ImportError("no module named %r" % main["name"])
        code, path, package = spec.loader.get_code(spec.name), spec.origin, spec.parent
    elif main.get("kind") == "path":
        path, package = main["path"], None
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
    else:
        raise ImportError("the program's main module is not in a file")
    module = types.ModuleType(MAIN)
    module.__file__ = path
    module.__package__ = package
    sys.modules[MAIN] = sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _trace():
    """The traceback of the exception at hand, without our own frames."""
    kind, error, trace = sys.exc_info()
    return "".join(traceback.format_exception(kind, error, without_ours(trace)))[-16000:]


def without_ours(trace):
    """A traceback from its first frame that is not ours or the import system's."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    first = trace
    while first is not None:
        filename = first.tb_frame.f_code.co_filename
        if not (filename.startswith(here) or filename.startswith("<frozen importlib") or
                filename.endswith(os.path.join("importlib", "__init__.py"))):
            return first
        first = first.tb_next
    return trace
