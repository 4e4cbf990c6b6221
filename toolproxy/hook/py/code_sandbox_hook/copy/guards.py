"""What an import may not do in a copy.

A server that starts, an event loop that runs and a long sleep mean that the
program's own work begins: the import stops, and what was registered before is
good enough. A process is refused, and a connection fails at once instead of
hanging on a network that drops packets.
"""
import asyncio
import errno
import socket
import sys
import threading
import time

LONGEST_SLEEP = 1.0

_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty",
              "pty.spawn")
_LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyname_ex")
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::", "")


class StopImport(BaseException):
    """Ends the import. Not an Exception: programs catch those."""


class Guards(object):
    """Armed while the copy is made ready, then gone for good."""

    def __init__(self):
        self.armed = False
        self.stopped = ""
        self.hooked = False
        self._restore = []
        self._slept = 0.0

    def stop(self, why):
        """Ends the import with a reason. In another thread it ends that thread."""
        if threading.current_thread() is threading.main_thread():
            self.stopped = self.stopped or why
        raise StopImport(why)

    def audit(self, event, args):
        """The audit hook. It cannot be removed, so it looks at the flag first."""
        if not self.armed:
            return
        if event == "socket.bind":
            if not _port(args[1:2]):  # a library probes what the machine can do
                raise OSError(errno.EADDRNOTAVAIL, "no network while a sandbox imports the program")
            self.stop("the program started a server")
        elif event in ("socket.connect", "socket.sendto"):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no network while a sandbox imports the program")
        elif event in _LOOKUPS:
            host = args[0] if args else None
            if host is not None and _text(host) not in _LOCAL and not _numeric(_text(host)):
                raise socket.gaierror(socket.EAI_NONAME, "no network while a sandbox imports the program")
        elif event in _PROCESSES:
            raise PermissionError(errno.EPERM, "no processes while a sandbox imports the program")

    def arm(self):
        """Begins to guard."""
        if not self.hooked:
            sys.addaudithook(self.audit)
            self.hooked = True
        self.armed = True
        self._replace(time, "sleep", self._sleep(time.sleep))
        self._replace(asyncio, "run", self._ending("the program started its event loop"))
        loop = asyncio.BaseEventLoop
        self._replace(loop, "run_until_complete", self._ending("the program started its event loop", skip=1))
        self._replace(loop, "run_forever", self._ending("the program started its event loop", skip=1))

    def disarm(self):
        """Ends the guard and puts everything back."""
        self.armed = False
        while self._restore:
            owner, name, original = self._restore.pop()
            setattr(owner, name, original)

    def on_module(self, names):
        """A post-import function that makes named functions of a module end the import."""
        def call(module):
            if not self.armed:
                return
            for name in names:
                holder, attribute = module, name
                if "." in name:
                    cls, attribute = name.split(".")
                    holder = getattr(module, cls, None)
                if getattr(holder, attribute, None) is not None:
                    self._replace(holder, attribute, self._ending("the program called %s.%s" % (
                        module.__name__, name), skip=1 if "." in name else 0))
        return call

    def _replace(self, owner, name, value):
        self._restore.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def _ending(self, why, skip=0):
        def ending(*args, **kwargs):
            for value in args[skip:]:
                if hasattr(value, "close") and asyncio.iscoroutine(value):
                    value.close()
            self.stop(why)
        return ending

    def _sleep(self, original):
        def sleep(seconds):
            if not self.armed or threading.current_thread() is not threading.main_thread():
                return original(seconds)
            self._slept += max(0.0, seconds)
            if self._slept > LONGEST_SLEEP:
                self.stop("the program began to wait")
            return original(seconds)
        return sleep


SERVERS = {
    "uvicorn": ("run",), "uvicorn.main": ("run",), "uvicorn.server": ("Server.run", "Server.serve"),
    "anyio": ("run",), "trio": ("run",), "hypercorn.run": ("run",), "waitress": ("serve",),
    "werkzeug.serving": ("run_simple",),
}
GUARDS = Guards()


def stop_if_preparing(why):
    """Ends the import when it is still going on."""
    if GUARDS.armed:
        GUARDS.stop(why)


def _port(address):
    """The port of a bind, 0 for any; a path or another address counts as one."""
    if address and isinstance(address[0], tuple) and len(address[0]) > 1:
        return address[0][1]
    return 1


def _text(host):
    return host.decode("ascii", "replace") if isinstance(host, bytes) else str(host)


def _numeric(host):
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return True
        except OSError:
            pass
    return False
