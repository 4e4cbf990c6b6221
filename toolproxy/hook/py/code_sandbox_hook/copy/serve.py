"""The copy as a program: one prepare frame, then one call frame, then the end.

A zygote uses the same two steps with a fork between them: prepare() once, then
call() in each child.
"""
import os
import sys
import threading

from . import call as calls, find, frames, prepare as preparing, state


class Copy(object):
    """An interpreter that was made ready and serves one call a process."""

    def __init__(self):
        self.prepared = None
        self.before = None

    def prepare(self, request):
        """Makes ready. Returns the ready frame, without its nonce."""
        target = request.get("target") or {}
        self.prepared = preparing.prepare(request.get("boot") or {}, target)
        calls.rehearse(self.prepared)
        calls.flush()  # what the import printed is none of the call's output
        self.before = state.Snapshot()
        problem = self._find(target)[1] if target else None
        frame = {"kind": "ready", "stopped": self.prepared.stopped, "import_error": self.prepared.error,
                 "withheld": self.prepared.reads, "threads": threading.active_count(),
                 "forkable": threading.active_count() == 1}
        if problem is not None:
            frame = {"kind": "failed", "error": problem}
        return frame

    def call(self, request, send):
        """Runs one call; send takes each frame, without its nonce."""
        caller = calls.Caller(request, self.prepared, send)
        target = request.get("target") or {}
        fn, problem = self._find(target)
        if problem is not None:
            return send({"kind": "failed", "error": problem})
        caller.run(fn, self.before)

    def _find(self, target):
        """The function, and why it cannot be had as an error of the protocol."""
        try:
            return find.function(target), None
        except find.NotFound as error:
            reason, message = error.reason, str(error)
        except Exception as error:
            reason, message = "state", "cannot make the object of the tool: %s: %s" % (type(error).__name__, error)
        if self.prepared.error and reason == "made_at_run_time":
            reason = "import_failed"
            message = "the import of the program failed in the sandbox before it made tool %r:\n%s" % (
                target.get("qualname"), self.prepared.error)
            if self.prepared.reads:
                message += "\n[code-sandbox] withheld from the sandbox, and read by the import: %s" % ", ".join(
                    self.prepared.reads[:10])
        elif self.prepared.stopped and reason == "made_at_run_time":
            message += " (the import stopped because %s)" % self.prepared.stopped
        return None, {"code": "unsandboxable", "reason": reason, "message": message[:8000], "executed": "no",
                      "retryable": False}


def main(argv):
    """Reads both requests from one descriptor and writes frames to another."""
    options = dict(zip(argv[::2], argv[1::2]))
    requests, results = int(options["--request-fd"]), int(options["--result-fd"])
    os.set_inheritable(requests, False)
    os.set_inheritable(results, False)
    copy = Copy()
    try:
        request = frames.read(requests)
        frames.write(results, dict(copy.prepare(request), nonce=request.get("nonce")))
        request = frames.read(requests)
    except frames.Closed:
        return 0
    os.close(requests)
    calls.after_fork()
    nonce = request.get("nonce")
    copy.call(request, lambda frame: frames.write(results, dict(frame, nonce=nonce)))
    # Threads and atexit functions of the program have no one left to serve.
    os._exit(0)


def run():
    """The entry point of runcopy.py."""
    sys._code_sandbox_copy = True
    sys.exit(main(sys.argv[1:]))
