"""What every framework's tests ask of a tool that ran elsewhere."""
import world


def is_elsewhere(seen, agent_pid, sidecar):
    """seen is what the tool `where` returned: its pid and its environment."""
    assert seen["pid"] != agent_pid, "the tool ran in the agent"
    assert seen["pid"] in [call["pid"] for call in sidecar.calls]
    no_secret(str(seen))
    assert seen["env"]["OPENAI_API_KEY"] == "code-sandbox-redacted"
    assert seen["env"]["DB_URL"] == "postgres://redacted.invalid:1/"
    assert seen["env"]["PORT"] == "0"


def no_secret(text):
    """No secret of the agent's environment is in text."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DB_URL"):
        assert world.SECRETS[name] not in text, name + " is in what the tool saw"
    assert "hunter2" not in text


def ids_differ(sidecar, count):
    """Each call had a sandbox of its own."""
    ids = [call["sandbox_id"] for call in sidecar.calls]
    assert len(ids) == count and len(set(ids)) == count, ids


def apart(sidecar, pids):
    """Each of the calls was in a process of its own. In namespaces of their own
    all have one pid, and the sandboxes' ids tell them apart."""
    import goservice
    if goservice.PROGRAM:
        assert set(pids) == {goservice.INSIDE}
    else:
        assert len(set(pids)) == len(pids)
    ids_differ(sidecar, len(pids))


def ran_elsewhere(sidecar, marker, ended):
    """The one call ran its body, and not in the agent. In a real sandbox the body
    has no folder of the agent's to write to, and raises."""
    import goservice
    if goservice.PROGRAM:
        assert [c["outcome"] for c in sidecar.calls] in (["ok"], ["raised"]) and not marker.ran(), ended.stderr[-2000:]
    else:
        assert marker.ran() and marker.pid() == sidecar.calls[0]["pid"], ended.stderr[-2000:]
