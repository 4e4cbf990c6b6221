"""Frames between the copy and what stands around it: four bytes of length, big
endian, then JSON. The nonce of the request comes back in every answer."""
import json
import os
import struct

MOST_BYTES = 64 << 20


class Closed(Exception):
    """The other side closed the pipe."""


def read(fd, limit=MOST_BYTES):
    """One frame, or Closed."""
    size = struct.unpack(">I", _exactly(fd, 4))[0]
    if size > limit:
        raise ValueError("a frame of %d bytes is larger than %d" % (size, limit))
    return json.loads(_exactly(fd, size).decode("utf-8"))


def _exactly(fd, size):
    parts, left = [], size
    while left:
        part = os.read(fd, min(left, 1 << 20))
        if not part:
            raise Closed()
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def write(fd, document):
    """Writes one frame."""
    data = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
    view = memoryview(struct.pack(">I", len(data)) + data)
    while view:
        view = view[os.write(fd, view):]
