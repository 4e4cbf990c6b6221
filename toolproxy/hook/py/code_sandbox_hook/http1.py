"""HTTP/1.1 without input or output: request bytes, and a parser fed with bytes.

One parser serves the blocking, the asyncio and the trio client, and none of
the modules that programs like to patch is involved.
"""
from . import errors

MOST_HEADER_BYTES = 64 << 10


def request(method, path, host, body, token="", accept="application/json"):
    """The bytes of one request. Connection: close, so that hanging up ends the run."""
    lines = ["%s %s HTTP/1.1" % (method, path), "Host: " + host, "Connection: close", "Accept: " + accept,
             "Content-Type: application/json", "Content-Length: %d" % len(body)]
    if token:
        lines.append("Authorization: Bearer " + token)
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Response(object):
    """Parses one response. Feed it until done; take() gives new body bytes."""

    def __init__(self, limit):
        self.limit = limit
        self.status = 0
        self.headers = {}
        self.done = False
        self._raw = b""
        self._body = []
        self._size = 0
        self._left = None
        self._chunked = False

    def feed(self, data):
        """Takes bytes from the wire; b"" means that the other side closed."""
        if not data:
            self._closed()
            return
        self._raw += data
        if not self.status and not self._head():
            return
        if self._chunked:
            self._chunks()
        else:
            self._plain()

    def take(self):
        """The body bytes that arrived since the last call."""
        body, self._body = b"".join(self._body), []
        return body

    def _closed(self):
        if self.status and not self._chunked and self._left is None:
            self.done = True
        if not self.done:
            raise errors.SandboxUnavailable("the sandbox's connection ended in the middle of an answer",
                                            code="sandbox_lost", executed="maybe")

    def _head(self):
        end = self._raw.find(b"\r\n\r\n")
        if end < 0:
            if len(self._raw) > MOST_HEADER_BYTES:
                raise _bad("its header is too large")
            return False
        lines = self._raw[:end].decode("latin-1").split("\r\n")
        self._raw = self._raw[end + 4:]
        parts = lines[0].split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
            raise _bad("its first line is not HTTP")
        self.status = int(parts[1])
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self._chunked = "chunked" in self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        self._left = int(length) if length.isdigit() else None
        return True

    def _plain(self):
        data, self._raw = self._raw, b""
        if self._left is not None:
            data = data[:self._left]
            self._left -= len(data)
        self._keep(data)
        if self._left == 0:
            self.done = True

    def _chunks(self):
        while not self.done:
            end = self._raw.find(b"\r\n")
            if end < 0:
                return
            try:
                size = int(self._raw[:end].split(b";")[0], 16)
            except ValueError:
                raise _bad("a chunk has no length")
            if size == 0:
                self.done = True
                return
            if len(self._raw) < end + 2 + size + 2:
                return
            self._keep(self._raw[end + 2:end + 2 + size])
            self._raw = self._raw[end + 2 + size + 2:]

    def _keep(self, data):
        self._size += len(data)
        if self._size > self.limit:
            raise errors.ResultRefused("the sandbox's answer is larger than %d bytes" % self.limit)
        if data:
            self._body.append(data)


def _bad(why):
    return errors.SandboxUnavailable("the sandbox's answer cannot be read: " + why, code="sandbox_lost",
                                     executed="maybe")
