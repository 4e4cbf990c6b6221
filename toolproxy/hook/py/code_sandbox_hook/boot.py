"""The boot record: what a copy must know to be made ready like this process."""
import os
import sys
import uuid

from . import VERSION, env, policy as policies

MOST_TOOLS = 2000
MOST_AHEAD = 2  # tools of which a copy may be made before the first call


def record(state):
    """The boot record of this process, as the protocol has it."""
    values, names = env.crossing(dict(os.environ), state.policy.env_allow)
    targets = state.registry.targets()[:MOST_TOOLS]
    ahead = [target for target in targets if _ahead(state.policy, target)][:MOST_AHEAD]
    return {
        "boot_id": state.boot_id, "hook_version": VERSION, "pid": os.getpid(),
        "container": os.environ.get("CODE_SANDBOX_CONTAINER", ""), "mode": state.policy.mode, "python": _python(), "main": _main(),
        "cwd": _cwd(), "argv0": _argv0(), "sys_path": _sys_path(),
        "env": {"values": values, "names": names},
        "frameworks": list(state.frameworks.values()),
        "tools": [_tool(target, target in ahead) for target in targets],
        "failure": _failure(),
    }


def new_id():
    """A fresh boot id."""
    return uuid.uuid4().hex


def _python():
    flags = ["-X" + (key if value is True else "%s=%s" % (key, value))
             for key, value in sorted(getattr(sys, "_xoptions", {}).items()) if key in ("utf8", "dev")]
    if sys.flags.optimize:
        flags.append("-" + "O" * min(sys.flags.optimize, 2))
    return {"executable": sys.executable or "", "version": "%d.%d.%d" % sys.version_info[:3],
            "implementation": sys.implementation.name, "prefix": sys.prefix, "base_prefix": sys.base_prefix,
            "flags": flags}


def _main():
    """How a copy gets the main module again: a path, a module name, or not at all."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and getattr(spec, "name", None):
        return {"kind": "module", "name": spec.name, "path": getattr(main, "__file__", None) or ""}
    path = getattr(main, "__file__", None)
    if not path:
        return {"kind": "none", "name": "", "path": ""}
    path = os.path.join(_start_cwd(), path)
    if path.endswith((".pyc", ".pyo")) or not os.path.exists(path):
        return {"kind": "none", "name": "", "path": path}
    return {"kind": "path", "name": "", "path": path}


def _start_cwd():
    return getattr(sys, "_code_sandbox_cwd", None) or _cwd()


def _cwd():
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _argv0():
    return sys.argv[0] if getattr(sys, "argv", None) else ""


def _sys_path():
    """sys.path with each entry absolute, without the hook's own folder."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    entries = [os.path.join(_start_cwd(), entry) if entry else _cwd()
               for entry in sys.path if isinstance(entry, str)]
    return [entry for entry in entries if os.path.realpath(entry) != os.path.realpath(here)]


def _ahead(policy, target):
    """True for a tool that its next call would run in a sandbox."""
    return (policy.mode == policies.ENFORCE and target.foreseen
            and not policy.excluded(target.name, target.base[0], target.qualname))


def _tool(target, ahead):
    decision = target.decision
    told = {"tool": target.name, "framework": target.framework, "module": target.base[0],
            "qualname": target.qualname, "line": target.line, "ordinal": target.ordinal,
            "decision": decision.where if decision else "", "reason": decision.reason if decision else "",
            "message": decision.why if decision else "", "audited": target.audited}
    if ahead:
        told["target"] = target.wire()
    return told


def _failure():
    failure = getattr(sys, "_code_sandbox_failure", None)
    return "%s: %s" % (type(failure).__name__, failure) if failure is not None else ""
