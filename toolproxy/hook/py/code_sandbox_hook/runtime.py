"""The state of the hook in this process: policy, registry, boot id.

A forked child is another process with another boot id; it says hello again.
"""
import os

from . import audit, boot, policy as policies, registry, start, transport

DEFAULT_URL = "http://127.0.0.1:8900"


class State(object):
    """All that the hook remembers."""

    def __init__(self, environment):
        self.side = start.side()
        self.registry = registry.Registry(keep=self.side == start.COPY)
        self.frameworks = {}
        self.settings = policies.from_environment(environment)
        self.policy = policies.Policy(self.settings)
        self.place = transport.Place(environment.get("CODE_SANDBOX_URL", "").strip() or DEFAULT_URL,
                                     environment.get("CODE_SANDBOX_TOKEN", "").strip())
        self.audit = audit.Audit()
        self.reset()

    def reset(self):
        """Forgets what belongs to a process: the boot id and the hello."""
        self.boot_id = boot.new_id()
        self.greeted = -1
        self.audit.reset(self.registry.targets())

    def answer(self, document):
        """Takes the hello answer: its policy stands over the environment's."""
        said = dict(document.get("policy") or {})
        said["mode"] = document.get("mode") or said.get("mode")
        said["limits"] = document.get("limits")
        self.policy = policies.merged(self.settings, said)


_state = State(os.environ)


def state():
    """The State of this process."""
    return _state


def policy():
    """The policy that holds now."""
    return _state.policy


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _state.reset())
