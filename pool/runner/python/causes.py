"""Tells how a program failed: the program's caller, and the runner, who names the cause.

It is one module with bootstrap.py, which stands after it.
"""

import _weakref  # weakref is one more file to be read
import builtins
import errno
import os
import sys

DISPLAY = sys.__excepthook__

# Names in code that makes processes, as os, subprocess, pty and multiprocessing have them.
FORKS = frozenset(("fork", "forkpty", "posix_spawn", "posix_spawnp", "fork_exec", "_fork_exec"))
# And that connects, as socket, asyncio and programs have them.
CONNECTS = frozenset(("connect", "_sock_connect", "_sock_connect_cb"))
# What holds several exceptions; Python has it from 3.11 on.
GROUPS = getattr(builtins, "BaseExceptionGroup", ())

# A weak reference to what is gone.
NOTHING = _weakref.ref(set())


def _errors(e):
    """What the runner needs to name the cause: e, then what it came from."""
    errors, rest = [], [e]
    while rest and len(errors) < 8:
        e = rest.pop(0)
        errors.append(_error(e))
        if e.__cause__ is not None:
            rest.append(e.__cause__)
        elif e.__context__ is not None and not e.__suppress_context__:
            rest.append(e.__context__)
        if isinstance(e, GROUPS):
            rest.extend(e.exceptions)
    return errors


def _error(e):
    ours = [c.__name__[:200] for c in type(e).__mro__[:64] if c.__module__ in ("builtins", "socket")]
    error = {"type": type(e).__name__[:200], "bases": ours}
    if isinstance(e, OSError):
        error["errno"] = e.errno if type(e.errno) is int and 0 < e.errno < 4096 else 0
        error["path"] = e.filename[:400] if isinstance(e.filename, str) else ""
        if e.errno in (errno.EACCES, errno.EPERM) and isinstance(e.filename, str):
            error["unreadable"] = _unreadable(e.filename)
        error["forking"] = _calls(e, FORKS)
        if e.errno in (errno.ECONNREFUSED, errno.ETIMEDOUT) or e.args == ("timed out",):
            error["dialled"] = Dial.host if _calls(e, CONNECTS) else ""
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


def _calls(e, names):
    """Whether the code that raised e calls one of these, or is one: an empty pipe raises what a failing fork does."""
    tb = e.__traceback__
    while tb is not None and tb.tb_next is not None:
        tb = tb.tb_next
    return tb is not None and not names.isdisjoint(tb.tb_frame.f_code.co_names + (tb.tb_frame.f_code.co_name,))


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
    internet = type(address) is tuple and address and isinstance(address[0], str)
    Dial.host = str.__str__(address[0])[:200] if internet else ""
    try:
        Dial.socket = _weakref.ref(sock)
    except TypeError:  # not a socket as the module socket makes them
        Dial.socket = NOTHING


def _dialling():
    """The host of a connection that is not made yet, "" when there is none."""
    sock = Dial.socket()
    if sock is None or sock.fileno() < 0:
        return ""
    state = sock.getsockopt(6, 11, 1)[0]  # IPPROTO_TCP, TCP_INFO: its first byte is the state
    return Dial.host if state == 2 else ""  # TCP_SYN_SENT


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
