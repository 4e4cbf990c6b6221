"""Tells how a program failed: the program's caller, and the runner, who names the cause.

It is one module with bootstrap.py, which stands after it.
"""

import _weakref  # weakref is one more file to be read
import errno
import os
import sys

DISPLAY = sys.__excepthook__

# Names in code that makes processes, as os, subprocess, pty and multiprocessing have them.
FORKS = frozenset(("fork", "forkpty", "posix_spawn", "posix_spawnp", "fork_exec", "_fork_exec"))

# A weak reference to what is gone.
NOTHING = _weakref.ref(set())


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
        error["dialled"] = Dial.host
    if isinstance(e, BlockingIOError):
        error["forking"] = _forking(e.__traceback__)
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


def _forking(tb):
    """Whether the code that raised makes processes: a pipe that is empty raises the same error."""
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and not FORKS.isdisjoint(tb.tb_frame.f_code.co_names)


class Dial:
    """What the program's Python code has connected to last: the host, "" before, and a weak reference to the socket."""

    host = ""
    socket = NOTHING


def watch_dials():
    """Has the interpreter tell of connections, in a network that a firewall closes.

    There a refusal looks like that of a server that is down: which machine it came
    from tells. Called once; each thing that the interpreter audits takes longer then.
    """
    sys.addaudithook(_audited)


def _audited(event, args):
    if event != "socket.connect":
        return
    sock, address = args
    if type(address) is tuple and address and type(address[0]) is str:
        Dial.host = address[0][:200]
        try:
            Dial.socket = _weakref.ref(sock)
        except TypeError:  # not a socket as the module socket makes them
            Dial.socket = NOTHING


def _dialling():
    """The host of a connection that is not made yet, "" when there is none."""
    sock = Dial.socket()
    if sock is None or sock.fileno() < 0:
        return ""
    try:
        sock.getpeername()
    except OSError:
        return Dial.host
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
