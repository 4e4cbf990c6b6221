"""A sidecar for tests: the protocol of toolproxy/hook/PROTOCOL.md, one fresh
interpreter a call, no isolation. The product's own is written in Go."""
import http.server
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
HOOK = os.path.normpath(os.path.join(HERE, "..", "..", "toolproxy", "hook", "py"))
STDOUT_LIMIT = 256 << 10


class Failure(Exception):
    """An error of the protocol: HTTP status and document."""

    def __init__(self, status, code, message, executed="no", **more):
        super().__init__(message)
        self.status = status
        self.document = {"error": dict(more, code=code, message=message, executed=executed,
                                       retryable=code in ("busy", "no_capacity"))}


class Sidecar:
    """Serves on a port of its own; remembers boots and calls."""

    def __init__(self, policy=None, forge=None, copy_timeout=180.0):
        self.policy = policy or {}
        self.forge = forge  # a test's own answer to a call: bytes of a whole HTTP response
        self.copy_timeout = copy_timeout
        self.boots, self.calls, self.copies = {}, [], []
        self.lock = threading.Lock()
        handler = type("Handler", (Handler,), {"sidecar": self})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return "http://127.0.0.1:%d" % self.server.server_address[1]

    def tools(self):
        """What every boot record said of its tools, the last word a tool."""
        found = {}
        for boot in self.boots.values():
            for tool in boot["tools"]:
                found[tool["tool"]] = tool
        return found

    def frameworks(self):
        return {f["name"]: f for boot in self.boots.values() for f in boot["frameworks"]}

    def alive(self):
        """The pids of copies that still run."""
        return [p.pid for p in self.copies if p.poll() is None]


class Copy:
    """One interpreter for one call."""

    def __init__(self, boot, home):
        self.id = "sbx-" + uuid.uuid4().hex[:12]
        self.nonce = uuid.uuid4().hex
        request_read, self.requests = os.pipe()
        self.results, result_write = os.pipe()
        env = dict(boot["env"]["values"])
        env.update({"HOME": home, "TMPDIR": home})
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        executable = boot["python"]["executable"] or sys.executable
        command = [executable] + boot["python"]["flags"] + [os.path.join(HOOK, "runcopy.py"),
                   "--request-fd", str(request_read), "--result-fd", str(result_write)]
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err,
                                        pass_fds=(request_read, result_write), start_new_session=True)
        os.close(request_read)
        os.close(result_write)

    def send(self, document):
        data = json.dumps(dict(document, nonce=self.nonce)).encode()
        data = struct.pack(">I", len(data)) + data
        try:
            while data:
                data = data[os.write(self.requests, data):]
        except OSError:
            pass

    def frame(self, deadline, gone):
        """The next frame that carries our nonce. gone() ends the wait."""
        head = self._read(4, deadline, gone)
        size = struct.unpack(">I", head)[0]
        if size > 64 << 20:
            raise Failure(502, "sandbox_lost", "a frame of %d bytes" % size, "maybe")
        found = json.loads(self._read(size, deadline, gone))
        if found.pop("nonce", None) != self.nonce:
            raise Failure(502, "sandbox_lost", "a frame with a wrong nonce", "maybe")
        return found

    def _read(self, size, deadline, gone):
        data = b""
        while len(data) < size:
            if time.monotonic() > deadline:
                raise Failure(504, "timeout", "the call took too long", "maybe")
            if gone():
                raise BrokenPipeError
            if not select.select([self.results], [], [], 0.05)[0]:
                continue
            part = os.read(self.results, size - len(data))
            if not part:
                self.process.wait()
                raise Failure(502, "sandbox_lost", "the sandbox ended with %s:\n%s" % (
                    self.process.returncode, self.text(self.err)[-2000:]), "maybe")
            data += part
        return data

    def text(self, file):
        file.seek(0)
        return file.read(STDOUT_LIMIT).decode("utf-8", "replace")

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.requests)
        os.close(self.results)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path != "/v1/tools":
            return self._json(404, {"error": {"code": "not_found", "message": "no such path", "executed": "no"}})
        self._json(200, {"tools": list(self.sidecar.tools().values())})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            if self.path == "/v1/tools/hello":
                self.sidecar.boots[body["boot_id"]] = body
                self._json(200, {"mode": self.sidecar.policy.get("mode"), "policy": self.sidecar.policy,
                                 "limits": self.sidecar.policy.get("limits", {})})
            else:
                self._call(body)
        except Failure as failure:
            self._json(failure.status, failure.document)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _call(self, body):
        sidecar = self.sidecar
        boot = sidecar.boots.get(body["boot_id"])
        if boot is None:
            raise Failure(404, "not_found", "no process said hello with this boot id")
        if sidecar.forge is not None:
            self.wfile.write(sidecar.forge(body))
            self.close_connection = True
            return
        home = tempfile.mkdtemp()
        copy = Copy(boot, home)
        call = {"tool": body["tool"], "target": body["target"], "sandbox_id": copy.id, "pid": copy.process.pid, "started": time.monotonic()}
        with sidecar.lock:
            sidecar.calls.append(call)
            sidecar.copies.append(copy.process)
        try:
            self._run(boot, body, copy)
        finally:
            copy.end()
            call["ended"] = time.monotonic()
            shutil.rmtree(home, ignore_errors=True)

    def _run(self, boot, body, copy):
        start = time.monotonic()
        deadline = start + (body.get("timeout_seconds") or self.sidecar.copy_timeout)
        copy.send({"op": "prepare", "boot": boot, "target": body["target"]})
        ready = copy.frame(deadline, self._gone)
        if ready["kind"] == "failed":
            raise self._refused(ready)
        copy.send({"op": "call", "target": body["target"], "args": body["args"], "kwargs": body["kwargs"],
                   "stream": body["stream"], "limits": self.sidecar.policy.get("limits", {})})
        streaming = False
        while True:
            frame = copy.frame(deadline, self._gone)
            kind = frame.pop("kind")
            if kind == "item":
                if not streaming:
                    streaming = self._begin_stream()
                self._line({"item": frame["item"]})
                continue
            if kind == "failed" and not streaming:
                raise self._refused(frame)
            frame.update({"sandbox_id": copy.id, "stdout": copy.text(copy.out), "stderr": copy.text(copy.err),
                          "warm": False, "timing": {"run_ms": (time.monotonic() - start) * 1000}})
            if body["stream"]:
                if not streaming:
                    self._begin_stream()
                self._line(frame)
                self.wfile.write(b"0\r\n\r\n")
                self.close_connection = True
            else:
                self._json(200, frame)
            return

    def _refused(self, frame):
        error = frame["error"]
        return Failure(413 if error["code"] == "too_large" else 422, error["code"], error["message"],
                       error["executed"], reason=error["reason"])

    def _begin_stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        return True

    def _line(self, document):
        data = json.dumps(document).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _gone(self):
        """True when the caller hung up."""
        try:
            return select.select([self.connection], [], [], 0)[0] and not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def _json(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection = True

    def log_message(self, *_):
        pass
