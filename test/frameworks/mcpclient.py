"""Starts an MCP server program and calls its tools over HTTP."""
import asyncio
import os
import socket
import subprocess
import sys
import time

import world


def call(kind, calls, sidecar=None, **env):
    """The answers to calls, [(tool, arguments), ...], of a server under the hook or not."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = world.environment(VIRTUAL_ENV=kind, **env)
    if sidecar is not None:
        where.update({"PYTHONPATH": world.HOOK, "CODE_SANDBOX_URL": sidecar.url, "CODE_SANDBOX_TOKEN": world.TOKEN})
    process = subprocess.Popen([sys.executable, os.path.join(world.AGENTS, "mcp_server.py"), kind, str(port)],
                               env=where, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        _wait(process, port)
        answers = asyncio.run(_calls(kind, "http://127.0.0.1:%d/mcp" % port, calls))
    finally:
        process.terminate()
        out = process.communicate(timeout=20)[0].decode("utf-8", "replace")
    return answers, process.pid, out


def _wait(process, port):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise AssertionError("the server ended: " + process.stdout.read().decode("utf-8", "replace")[-4000:])
        time.sleep(0.1)
    raise AssertionError("the server did not start")


async def _calls(kind, url, calls):
    answers = []
    if kind == "fastmcp":
        from fastmcp import Client
    else:
        from mcp import Client
    async with Client(url) as client:
        tools = await client.list_tools()
        answers.append(str(tools))
        for name, arguments in calls:
            if kind == "fastmcp":
                result = await client.call_tool_mcp(name, arguments)
            else:
                result = await client.call_tool(name, arguments)
            answers.append(result.model_dump(mode="json"))
    return answers
