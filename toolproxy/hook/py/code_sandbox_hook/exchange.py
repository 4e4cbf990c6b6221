"""One tool call as documents: what is sent, and what the answer means. No I/O."""
import json
import re
import sys
import uuid

from . import classes, decode, encode, errors, rebuild, runtime, warn

GRACE_SECONDS = 30.0
ENVELOPE_BYTES = 4 << 20
CALL_PATH = "/v1/tools/call"
HELLO_PATH = "/v1/tools/hello"
STREAM_TYPE = "application/x-ndjson"
MOST_OUTPUT = 65536
_NAME = re.compile(r"[\w.:<>\[\]-]{1,200}\Z")  # of a global; what else a hostile copy says is not logged

_HOST = re.compile(r"[a-z0-9_.\[\]:-]{1,270}\Z")


class Call(object):
    """One call of one function, from arguments to value."""

    def __init__(self, target, fn, args, kwargs, stream, instance=None):
        policy = runtime.policy()
        self.target = target
        self.fn = fn
        self.stream = stream
        self.limits = policy.limits
        self.allow = policy.allow_results
        self.seconds = (policy.timeout or self.limits["max_seconds"]) + GRACE_SECONDS
        wire = target.wire()
        if instance is not None:
            wire["instance"] = instance
        sent = self._encoded(args, kwargs)
        self.document = {
            "id": uuid.uuid4().hex, "boot_id": runtime.state().boot_id, "tool": target.name,
            "framework": target.framework, "target": wire, "stream": bool(stream),
            "args": sent[0], "kwargs": sent[1], "timeout_seconds": policy.timeout,
        }

    def _encoded(self, args, kwargs):
        encoder = encode.Encoder(self.limits)
        try:
            return [encoder.value(a) for a in args], {k: encoder.value(v) for k, v in kwargs.items()}
        except errors.CannotSend as error:
            if error.code == "too_large":
                raise
            refused = errors.Unsandboxable(str(error), reason="argument")
        warn.refused(self.target, refused)
        raise refused

    def body(self):
        """The request's bytes. The boot id may have changed since a fork or a new hello."""
        self.document["boot_id"] = runtime.state().boot_id
        return encode.dump(self.document, self.limits["args_bytes"], "the arguments")

    @property
    def answer_limit(self):
        """The most bytes an answer may have, envelope included."""
        return int(self.limits["result_bytes"]) + ENVELOPE_BYTES

    def item(self, document):
        """The value of one stream item."""
        return self._decoded(document.get("item"))

    def value(self, document):
        """The function's value, or its exception raised."""
        self._side_effects(document)
        if document.get("ok") is True:
            return self._decoded(document.get("value"))
        error = document.get("error")
        if isinstance(error, dict) and error.get("kind") == "tool_raised":
            _tell_denied(error, document.get("egress_denied"), self.target)
            raise rebuild.exception(error, self.limits)
        raise self.failed(document)

    def failed(self, document):
        """Our error for an answer that is none, said in the log too."""
        error = failure(document)
        if isinstance(error, errors.Unsandboxable):
            warn.refused(self.target, error)
        return error

    def _decoded(self, data):
        resolver = classes.Resolver(classes.named_by(self.fn), self.allow)
        return decode.decode(data, self.limits, resolver)

    def _side_effects(self, document):
        changed = document.get("state_changed")
        if isinstance(changed, list):
            warn.state_changed(self.target, [c for c in changed if isinstance(c, str) and _NAME.match(c)][:20])
        for name in ("stdout", "stderr"):
            text = document.get(name)
            if isinstance(text, str) and text:
                _forward(name, text[:MOST_OUTPUT])


def _tell_denied(error, hosts, target):
    """Adds to an exception's hint which hosts the tool asked for in vain."""
    hosts = [h for h in hosts if isinstance(h, str) and _HOST.match(h)][:5] if isinstance(hosts, list) else []
    if hosts:
        hint = "[code-sandbox] tool %r may not reach %s. Allow it with --tool-grant '%s=%s', on Kubernetes by the annotation code-sandbox.dev/grants." % (
            target.name, ", ".join(hosts), target.name, ",".join(hosts))
        error["hint"] = "%s\n%s" % (error["hint"], hint) if isinstance(error.get("hint"), str) and error["hint"] else hint


def _forward(name, text):
    """Shows what the tool printed where the agent's own prints go, but never on
    a standard output that an MCP server speaks its protocol on."""
    if name == "stdout" and "mcp.server.stdio" in sys.modules:
        name = "stderr"
    stream = getattr(sys, name, None)
    try:
        stream.write(text)
        stream.flush()
    except Exception:  # a closed or foreign stream is no reason to fail a call
        pass


def failure(document):
    """Our error for an answer that is none."""
    error = document.get("error") if isinstance(document, dict) else None
    error = error if isinstance(error, dict) else {}
    code = str(error.get("code") or error.get("kind") or "internal")[:60]
    message = str(error.get("message") or "the sandbox gave no reason")[:4000]
    executed = "no" if error.get("executed") == "no" else "maybe"
    reason = str(error.get("reason") or "")[:60]
    if code == "unsandboxable":
        return errors.Unsandboxable(message, reason=reason, executed=executed)
    return errors.SandboxUnavailable(message, code=code, executed=executed, reason=reason)


def may_retry(error, attempt):
    """How long to wait before the same call is sent again, or None. Only what
    certainly did not run is ever sent again."""
    if not isinstance(error, errors.SandboxUnavailable) or error.executed != "no" or attempt >= 3:
        return None
    return {"not_found": 0.0, "busy": 0.2 * 2 ** attempt}.get(error.code)


class Documents(object):
    """Turns body bytes into JSON documents: one, or one a line."""

    def __init__(self, limit):
        self.limit = limit
        self._rest = b""

    def lines(self, data):
        """The documents that are complete now."""
        self._rest += data
        while True:
            end = self._rest.find(b"\n")
            if end < 0:
                if len(self._rest) > self.limit:
                    raise errors.ResultRefused("one item of the stream is larger than %d bytes" % self.limit)
                return
            line, self._rest = self._rest[:end], self._rest[end + 1:]
            if line.strip():
                yield document(line, self.limit)

    def last(self, status):
        """The document of a body that is complete."""
        if not self._rest.strip():
            raise failure({"error": {"code": "sandbox_lost", "executed": "maybe", "message":
                                     "the sandbox answered %d and nothing more" % status}})
        return document(self._rest, self.limit)

    def add(self, data):
        """Keeps bytes of a body that is one document."""
        self._rest += data


def document(data, limit):
    """One JSON object, bounded. Raises ResultRefused."""
    found = decode.parse(data, limit)
    if not isinstance(found, dict):
        raise errors.ResultRefused("the sandbox's answer is not an object")
    return found


def hello_body():
    """The boot record as bytes."""
    from . import boot
    return json.dumps(boot.record(runtime.state()), ensure_ascii=True).encode("ascii")
