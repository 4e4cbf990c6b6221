"""Runs agent programs with and without the sandbox and reads what they say.

An agent program prints one line that begins with RESULT and goes on in JSON.
"""
import json
import os
import secrets
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HOOK = os.path.normpath(os.path.join(HERE, "..", "..", "toolproxy", "hook", "py"))
AGENTS = os.path.join(HERE, "agents")
SECRETS = {
    "OPENAI_API_KEY": "sk-test-not-a-real-key-0123456789", "ANTHROPIC_API_KEY": "sk-ant-not-real-0123456789",
    "DB_URL": "postgres://user:hunter2@db.internal:5432/app", "PORT": "8080", "DEBUG": "true",
    "SETTINGS_JSON": "{\"a\": 1}", "TOKEN_FILE": "/run/secrets/token",
}
TOKEN = secrets.token_hex(16)  # of the services that these tests start
PLAIN = ("PATH", "LANG", "HOME", "TMPDIR", "LD_LIBRARY_PATH")


class Ended:
    """How a program ended."""

    def __init__(self, done):
        self.code = done.returncode
        self.stdout = done.stdout
        self.stderr = done.stderr

    @property
    def result(self):
        _, found, rest = self.stdout.rpartition("RESULT ")
        if found:
            return json.loads(rest.splitlines()[0])
        raise AssertionError("the agent gave no result (exit %d)\n%s\n%s" % (
            self.code, self.stdout[-2000:], self.stderr[-6000:]))


def environment(**more):
    """A small environment with secrets in it."""
    env = {name: os.environ[name] for name in PLAIN if name in os.environ}
    env.update(SECRETS)
    env.update({"OTEL_SDK_DISABLED": "true", "CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false",
                "OPENAI_AGENTS_DISABLE_TRACING": "1", "PYTHONDONTWRITEBYTECODE": "1", "NO_PROXY": "*",
                "DO_NOT_TRACK": "1", "LANGSMITH_TRACING": "false"})
    env.update({name: value for name, value in more.items() if value is not None})
    if "CODE_SANDBOX_URL" in env:
        env.setdefault("CODE_SANDBOX_TOKEN", TOKEN)
    return env


def run(agent, *args, python=None, sidecar=None, path=(), cwd=None, timeout=400, flags=(), **env):
    """Runs an agent program: under the hook when a sidecar is given."""
    script = agent if os.path.isabs(agent) else os.path.join(AGENTS, agent)
    where = environment(**env)
    entries = list(path)
    if sidecar is not None:
        entries.insert(0, HOOK)
        where["CODE_SANDBOX_URL"] = sidecar if isinstance(sidecar, str) else sidecar.url
        where.setdefault("CODE_SANDBOX_TOKEN", TOKEN)
    if entries:
        where["PYTHONPATH"] = os.pathsep.join(entries)
    done = subprocess.run([python or sys.executable, *flags, script, *map(str, args)], env=where, cwd=cwd,
                          capture_output=True, text=True, timeout=timeout)
    return Ended(done)


def both(agent, *args, sidecar, **options):
    """The same program without and with the sandbox."""
    return run(agent, *args, **options), run(agent, *args, sidecar=sidecar, **options)


def program(folder, **files):
    """Writes a program of several files; "__" in a name is a folder. Returns main.py."""
    for name, text in files.items():
        path = os.path.join(str(folder), *(name.split("__"))) + ".py"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return os.path.join(str(folder), "main.py")


def own(folder, files, sidecar, *args, **options):
    """Runs a program whose module `tools` is hand-written dispatch."""
    options.setdefault("CODE_SANDBOX_TOOL_FUNCTIONS", "tools:*")
    return run(program(folder, **files), *args, sidecar=sidecar, **options)
