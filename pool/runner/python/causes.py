"""Tells how a program failed: the program's caller, and the runner, who names the cause.

It is one module with bootstrap.py, which stands after it.
"""

import errno
import os
import sys

DISPLAY = sys.__excepthook__

# Names in code that makes processes, as os, subprocess, pty and multiprocessing have them.
FORKS = frozenset(("fork", "forkpty", "posix_spawn", "posix_spawnp", "fork_exec", "_fork_exec"))


def _errors(e):
    """What the runner needs to name the cause: e, then what it came from."""
    errors = []
    while e is not None and len(errors) < 8:
        errors.append(_error(e))
        e = e.__cause__ or e.__context__
    return errors


def _error(e):
    error = {"type": type(e).__name__[:200], "bases": [c.__name__[:200] for c in type(e).__mro__[:64]]}
    if isinstance(e, OSError):
        error["errno"] = e.errno if isinstance(e.errno, int) else 0
        error["path"] = e.filename[:400] if isinstance(e.filename, str) else ""
        if e.errno in (errno.EACCES, errno.EPERM) and isinstance(e.filename, str):
            error["unreadable"] = _unreadable(e.filename)
        error["dialled"] = _dialled(_raiser(e))
    if isinstance(e, BlockingIOError):
        error["forking"] = _forking(_raiser(e))
    if isinstance(e, ImportError):
        error["module"] = e.name[:200] if isinstance(e.name, str) else ""
    if isinstance(e, RuntimeError):
        error["message"] = str(e)[:200]
    return error


def _unreadable(path):
    """Whether the path is there and may not be read: then it need not have been a write that was refused."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError as e:
        return e.errno in (errno.EACCES, errno.EPERM) and os.path.lexists(path)
    except ValueError:
        pass
    return False


def _raiser(e):
    """The frame that raised e; None for what was raised outside of Python code."""
    tb = e.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb and tb.tb_frame


def _forking(frame):
    """Whether the code that raised makes processes: a pipe that is empty raises the same error."""
    return frame is not None and not FORKS.isdisjoint(frame.f_code.co_names)


def _dialled(frame):
    """The host that a frame connects to, as far as its code shows it, and "" otherwise.

    Where a network is closed by a firewall, that looks like a server that is down.
    """
    if frame is None or not any("connect" in name for name in (frame.f_code.co_name,) + frame.f_code.co_names):
        return ""
    for values in (frame.f_locals.values(), frame.f_code.co_consts):
        hosts = [v[0] for v in list(values) if type(v) is tuple and len(v) in (2, 4) and type(v[0]) is str and type(v[1]) is int]
        if hosts:
            return hosts[-1][:200]  # a name comes before what it was resolved to
    return ""


def _show(e, path):
    """Prints the traceback as the interpreter would, with the program's own hook."""
    _flush()
    hook = getattr(sys, "excepthook", None)
    if hook is not None or "excepthook" in sys.__dict__:
        try:
            hook(type(e), _trim(e, path), e.__traceback__)
            return
        except BaseException as failed:
            failed.__context__ = None  # that it came of handling e is our doing
            _try(print, "Error in sys.excepthook:", file=sys.stderr)
            _try(DISPLAY, type(failed), _trim(failed, path), failed.__traceback__)
            _try(print, "\nOriginal exception was:", file=sys.stderr)
    else:
        _try(print, "sys.excepthook is missing", file=sys.stderr)
    _try(DISPLAY, type(e), _trim(e, path), e.__traceback__)


def _trim(e, path):
    """e with its traceback from the program's first frame on; a syntax error has none."""
    tb = e.__traceback__
    while tb is not None and tb.tb_frame.f_code.co_filename != path:
        tb = tb.tb_next
    return e.with_traceback(tb)
