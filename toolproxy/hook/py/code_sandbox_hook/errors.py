"""What the hook raises, by who failed.

Sandbox trouble is ours: SandboxUnavailable and its children, raised in place
of the tool's body, never beside it. SandboxedToolError stands for an exception
of the tool whose class cannot be rebuilt here.
"""


class SandboxUnavailable(Exception):
    """The sandbox gave no answer. executed is "no" or "maybe"."""

    def __init__(self, message, code="internal", executed="no", reason=""):
        super().__init__(message)
        self.code = code
        self.executed = executed
        self.reason = reason


class Unsandboxable(SandboxUnavailable):
    """The function cannot run in a sandbox. The message says what to change."""

    def __init__(self, message, reason="", executed="no"):
        super().__init__(message, code="unsandboxable", executed=executed, reason=reason)


class ResultRefused(SandboxUnavailable):
    """What came back is not a value that may enter this process."""

    def __init__(self, message):
        super().__init__(message, code="bad_result", executed="maybe")


class CannotSend(SandboxUnavailable):
    """A value has no typed JSON form, or is beyond a bound."""

    def __init__(self, message, bound=False):
        super().__init__(message, code="too_large" if bound else "bad_request", executed="no")


class SandboxedToolError(Exception):
    """The tool raised an exception whose class does not exist here."""


class RemoteTraceback(Exception):
    """Carries the traceback text from the sandbox, as the cause of the error."""

    def __init__(self, text):
        super().__init__(text)
        self.text = text

    def __str__(self):
        return "\n" + self.text
