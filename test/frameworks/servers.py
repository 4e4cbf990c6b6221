"""Starts a server program and asks it over HTTP."""
import json
import socket
import subprocess
import time
import urllib.request


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(command, port, env, cwd, times):
    """The JSON answers of a server to `times` requests, and what it printed."""
    process = subprocess.Popen(command, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    answers = []
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        deadline = time.monotonic() + 60
        while len(answers) < times:
            try:
                with opener.open("http://127.0.0.1:%d/" % port, timeout=30) as answer:
                    answers.append(json.loads(answer.read()))
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise AssertionError("the server gave no answer")
                time.sleep(0.2)
    finally:
        process.terminate()
        out = process.communicate(timeout=30)[0].decode("utf-8", "replace")
    return answers, out
