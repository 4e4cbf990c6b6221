"""Each example of docs/examples prints its key without the sandbox and a
placeholder with it. An environment runs the examples of its own framework."""
import importlib.util
import os
import re

import pytest

import goservice
import world

EXAMPLES = os.path.normpath(os.path.join(world.HERE, "..", "..", "docs", "examples"))
NEEDS = {
    "openai_agents_agent": "agents.tool", "langgraph_agent": "langgraph.graph", "pydantic_ai_agent": "pydantic_ai.models.function",
    "mcp_server_agent": "mcp.server.mcpserver.server", "fastmcp_agent": "fastmcp.tools.function_tool",
    "strands_agent": "strands.tools.decorator", "smolagents_agent": "smolagents.tools",
    "anthropic_agent": "anthropic.lib.tools", "llama_index_agent": "llama_index.core.tools.function_tool",
    "google_adk_agent": "google.adk.tools.function_tool", "crewai_agent": "crewai.tools.base_tool",
    "handwritten_agent": "json",
}


def here():
    """The examples whose framework is in this environment."""
    found = []
    for name, module in sorted(NEEDS.items()):
        try:
            if importlib.util.find_spec(module.split(".")[0]) and importlib.util.find_spec(module):
                found.append(name)
        except ImportError:
            continue
    return found


def test_every_example_is_listed():
    files = {n[:-3] for n in os.listdir(EXAMPLES) if n.endswith("_agent.py")}
    assert files == set(NEEDS)


@pytest.mark.parametrize("name", here())
def test_example(tmp_path, sidecar, name):
    options = {"HOME": str(tmp_path), "CODE_SANDBOX_TOOL_FUNCTIONS": "handwritten_tools:*"}
    plain, boxed = world.both(os.path.join(EXAMPLES, name + ".py"), sidecar=sidecar, **options)
    assert world.SECRETS["OPENAI_API_KEY"] in plain.stdout, plain.stderr[-3000:]
    assert "code-sandbox-redacted" in boxed.stdout, boxed.stderr[-3000:]
    assert world.SECRETS["OPENAI_API_KEY"] not in boxed.stdout + boxed.stderr
    pids = {int(n) for n in re.findall(r"\b\d{2,}\b", boxed.stdout)}
    assert sidecar.calls and (goservice.PROGRAM or pids & {call["pid"] for call in sidecar.calls})
