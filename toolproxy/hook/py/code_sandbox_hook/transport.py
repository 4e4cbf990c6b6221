"""The three ways to the sidecar: blocking, asyncio, trio. Each is a generator
of body bytes over one connection that ends with the caller.

The socket class is kept as it was when the hook was loaded, so that programs
that replace it (proxies, recorders) do not get between; gevent's and
eventlet's own are used where they are at work, so that their loops go on.
"""
import socket as _socket
import sys
import time

from . import errors

_Socket = _socket.socket
_TIMEOUT = _socket.timeout
CONNECT_SECONDS = 3.0
BLOCK = 65536


class Place(object):
    """Where the sidecar listens."""

    def __init__(self, url, token=""):
        rest = url.split("://", 1)[-1].split("/", 1)[0]
        host, _, port = rest.rpartition(":")
        self.host = (host or rest).strip("[]") or "127.0.0.1"
        self.port = int(port) if port.isdigit() else 8900
        self.token = token

    @property
    def header(self):
        """The value of the Host header."""
        return "%s:%d" % ("[" + self.host + "]" if ":" in self.host else self.host, self.port)


def unreachable(error):
    """Our error for a connection that was never made: nothing ran."""
    return errors.SandboxUnavailable("cannot reach the sandbox: %s; the tool did not run" % error,
                                     code="no_capacity", executed="no")


def lost(error):
    """Our error for a connection that broke after the request was sent."""
    return errors.SandboxUnavailable("the sandbox's connection broke: %s" % error, code="sandbox_lost",
                                     executed="maybe")


def _too_late(seconds):
    return errors.SandboxUnavailable("the sandbox did not answer within %.0f s" % seconds, code="timeout",
                                     executed="maybe")


def _socket_class():
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("socket"):
        return sys.modules["gevent.socket"].socket
    monkey = sys.modules.get("eventlet.patcher")
    if monkey is not None and monkey.is_monkey_patched("socket"):
        return sys.modules["eventlet.green.socket"].socket
    return _Socket


def blocking(place, data, response, seconds):
    """Yields body bytes; blocks this thread only."""
    family = _socket.AF_INET6 if ":" in place.host else _socket.AF_INET
    sock = _socket_class()(family, _socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_SECONDS)
        try:
            sock.connect((place.host, place.port))
        except OSError as error:
            raise unreachable(error)
        deadline = time.monotonic() + seconds
        try:
            sock.settimeout(seconds)
            sock.sendall(data)
            while not response.done:
                sock.settimeout(max(0.01, deadline - time.monotonic()))
                response.feed(sock.recv(BLOCK))
                body = response.take()
                if body:
                    yield body
        except _TIMEOUT:
            raise _too_late(seconds)
        except OSError as error:
            raise lost(error)
    finally:
        sock.close()


async def on_asyncio(place, data, response, seconds):
    """Yields body bytes; a cancelled task drops the connection at once."""
    import asyncio
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(place.host, place.port), CONNECT_SECONDS)
    except (OSError, asyncio.TimeoutError) as error:
        raise unreachable(error)
    deadline = time.monotonic() + seconds
    try:
        writer.write(data)
        await writer.drain()
        while not response.done:
            left = max(0.01, deadline - time.monotonic())
            response.feed(await asyncio.wait_for(reader.read(BLOCK), left))
            body = response.take()
            if body:
                yield body
    except asyncio.TimeoutError:
        raise _too_late(seconds)
    except OSError as error:
        raise lost(error)
    finally:
        writer.transport.abort()


async def on_trio(place, data, response, seconds):
    """Yields body bytes under trio; cancellation closes the socket."""
    import trio
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(place.host, place.port)
    except (OSError, trio.TooSlowError) as error:
        raise unreachable(error)
    deadline = trio.current_time() + seconds
    try:
        await stream.send_all(data)
        while not response.done:
            with trio.CancelScope(deadline=deadline) as scope:
                got = await stream.receive_some(BLOCK)
            if scope.cancelled_caught:
                raise _too_late(seconds)
            response.feed(bytes(got))
            body = response.take()
            if body:
                yield body
    except trio.BrokenResourceError as error:
        raise lost(error)
    finally:
        await trio.aclose_forcefully(stream)


def of_this_task():
    """The asynchronous way that fits the loop which is running now."""
    trio = sys.modules.get("trio")
    if trio is not None and _in_trio(trio):
        return on_trio
    return on_asyncio


def _in_trio(trio):
    try:
        trio.lowlevel.current_task()
        return True
    except RuntimeError:
        return False
