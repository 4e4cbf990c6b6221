"""The product's own service in place of the sidecar for tests: each test that
asks for a sidecar gets `code-sandbox local` on ports of its own.

Used when CODE_SANDBOX_TEST_SERVICE names the program.
"""
import calendar
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

import world

PROGRAM = os.environ.get("CODE_SANDBOX_TEST_SERVICE", "")
PYTHON = os.environ.get("CODE_SANDBOX_TEST_SERVICE_PYTHON", "/usr/bin/python3")
FLAGS = {"mode": "--tools", "context": "--tools-context"}
INSIDE = 2  # the pid of a copy's interpreter in its own pid namespace
LINE = re.compile(r"^(\S+) \[\w+\]\s+code-sandbox\.tools: tool call ended: (.*)$")


class Service:
    """One running service. It has the face of sidecar.Sidecar."""

    def __init__(self, policy=None):
        self.log = tempfile.NamedTemporaryFile("r", prefix="service", suffix=".log")
        command = [PROGRAM, "local", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--target", "1",
                   "--preload", "none", "--log-level", "info", "--python", PYTHON]
        for name, value in (policy or {}).items():
            command += [FLAGS[name], value]
        env = {k: v for k, v in os.environ.items() if not k.startswith("CODE_SANDBOX_")}
        env["CODE_SANDBOX_TOKEN"] = world.TOKEN
        with open(self.log.name, "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def __enter__(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"serving: address=(\S+) admin_address=(\S+)", self._text())
            if found:
                self.url, self.admin = "http://" + found.group(1), "http://" + found.group(2)
                return self
            time.sleep(0.05)
        raise AssertionError("the service did not start:\n" + self._text())

    def __exit__(self, *_):
        self.process.terminate()
        code = self.process.wait(60)
        said = self._text()
        self.log.close()
        if code != 0 or "[ERROR]" in said:
            sys.stderr.write(said)
            raise AssertionError("the service ended with %d" % code)

    def _text(self):
        with open(self.log.name) as log:
            return log.read()

    def _get(self, url):
        request = urllib.request.Request(url, headers={"Authorization": "Bearer " + world.TOKEN})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.read().decode()

    def _list(self):
        return json.loads(self._get(self.url + "/v1/tools"))

    @property
    def boots(self):
        return {b["boot_id"]: b for b in self._list()["boots"]}

    @property
    def calls(self):
        """The calls that have ended, as the log tells."""
        return [_call(*m.groups()) for m in map(LINE.match, self._text().splitlines()) if m]

    def tools(self):
        return {t["tool"]: t for t in self._list()["tools"]}

    def frameworks(self):
        return {f["name"]: f for f in self._list()["frameworks"]}

    def alive(self):
        """How many sandboxes a call holds, once the last ones had time to go."""
        for _ in range(20):
            left = re.search(r'code_sandbox_pool_sandboxes\{state="leased"\} (\d+)', self._get(self.admin + "/metrics"))
            if left.group(1) == "0":
                return 0
            time.sleep(0.1)
        return int(left.group(1))


def _call(when, fields):
    """One line of the log as a call."""
    found = dict(re.findall(r'(\w+)=("[^"]*"|\S*)', fields))
    found = {k: v.strip('"') for k, v in found.items()}
    stamp, fraction = re.match(r"([^.Z]+)(?:\.(\d+))?", when).groups()
    ended = calendar.timegm(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) + float("0." + (fraction or "0"))
    return {"tool": found["tool"], "sandbox_id": found["sandbox"], "pid": INSIDE, "ended": ended,
            "started": ended - float(found["ms"]) / 1000, "outcome": found["outcome"]}
