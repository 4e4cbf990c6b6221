"""Says things once, through the logging module, and only when there is a call."""

_said = set()


def once(key, message, *args):
    """Logs a warning the first time key is seen in this process."""
    if key in _said or len(_said) > 10000:
        return
    _said.add(key)
    import logging
    logging.getLogger("code_sandbox").warning(message, *args)


def state_changed(target, names):
    """The tool changed globals in the copy; the agent's own did not change."""
    fresh = [name for name in names if ("state", target.base, name) not in _said and len(_said) <= 10000]
    for name in fresh:
        _said.add(("state", target.base, name))
    if fresh:
        once(("state", target.base, tuple(fresh)),
             "tool %r changed %s, and each call runs in a sandbox of its own: the change is lost. Keep such state "
             "outside of the process, or keep the tool in the agent with tools-exclude", target.name,
             ", ".join(fresh))


def in_agent(target, why):
    """The tool runs in the agent, against the default."""
    once(("agent", target.base), "tool %r runs in the agent, not in a sandbox: %s", target.name, why)


def unknown_shape(framework, version, why):
    """A framework that the hook does not know well enough."""
    once(("shape", framework), "the tools of %s %s cannot be sandboxed: %s", framework, version, why)


def refused(target, error):
    """A call was refused. Frameworks may hide the sentence from the model and
    the author, so it is logged as well."""
    once(("refused", target.base, str(error)[:200]), "%s", error)
