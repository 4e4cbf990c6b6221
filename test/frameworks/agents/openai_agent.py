"""An OpenAI Agents agent. argv[1] is JSON: the tool calls of the model's first
turn, [[tool, arguments], ...]. Prints what the tools said."""
import asyncio
import enum
import json
import os
import sys

from pydantic import BaseModel

from agents import (Agent, CodeInterpreterTool, ModelResponse, RunContextWrapper, Runner, Usage, WebSearchTool,
                    function_tool)
from agents.mcp import MCPServer
from agents.models.interface import Model
from mcp.types import CallToolResult, TextContent, Tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

STATE = {"calls": 0}


class Unit(enum.Enum):
    C = "celsius"


class Query(BaseModel):
    city: str
    unit: Unit = Unit.C


class Weather(BaseModel):
    city: str
    degrees: float
    query: Query


@function_tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@function_tool
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@function_tool
async def weather(query: Query) -> Weather:
    """Tells the weather."""
    await asyncio.sleep(0)
    return Weather(city=query.city, degrees=21.5, query=query)


@function_tool
def boom(text: str) -> str:
    """Fails."""
    raise ValueError("bad input: " + text)


@function_tool
def with_context(ctx: RunContextWrapper, path: str) -> str:
    """Takes the framework's context."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    return "context %s" % type(ctx).__name__


def build():
    """Makes a tool at run time."""
    secret = object()

    @function_tool
    def late(path: str) -> str:
        """Made at run time."""
        with open(path, "w") as file:
            file.write(str(os.getpid()))
        return str(secret is not None)
    return late


def factory(n):
    @function_tool(name_override="plus%d" % n)
    def plus(x: int) -> int:
        """Adds a constant."""
        return x + n
    return plus


PLUS = [factory(5), factory(7)]
HELPER = Agent(name="helper", instructions="h")


class Remote(MCPServer):
    """An MCP server with one tool, which says whether the agent called it."""
    name = "remote"
    agent = 0

    async def connect(self):
        """Nothing to connect to."""

    async def cleanup(self):
        """Nothing to end."""

    async def list_tools(self, run_context=None, agent=None):
        return [Tool(name="remote", description="remote", inputSchema={"type": "object", "properties": {}})]

    async def call_tool(self, tool_name, arguments, meta=None):
        text = "called by the agent" if os.getpid() == Remote.agent else "called by another process"
        return CallToolResult(content=[TextContent(type="text", text=text)])

    async def list_prompts(self):
        raise NotImplementedError

    async def get_prompt(self, name, arguments=None):
        raise NotImplementedError


class Scripted(Model):
    """Calls the tools it was told to, then says done."""

    def __init__(self, calls):
        self.calls = calls

    async def get_response(self, *args, **kwargs):
        calls, self.calls = self.calls, []
        if calls:
            output = [ResponseFunctionToolCall(type="function_call", id="f%d" % i, call_id="c%d" % i, name=name,
                                               arguments=json.dumps(arguments))
                      for i, (name, arguments) in enumerate(calls)]
        else:
            output = [ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[
                ResponseOutputText(type="output_text", text="done", annotations=[])])]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def main(late=None):
    HELPER.model = Scripted([])
    Remote.agent = os.getpid()
    tools = [add, where, weather, boom, with_context, late, *PLUS, HELPER.as_tool("helper", "helps")]
    agent = Agent(name="a", model=Scripted(json.loads(sys.argv[1])), tools=tools, mcp_servers=[Remote()])
    result = asyncio.run(Runner.run(agent, "go"))
    outputs = [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]
    names = [getattr(t, "name", "") for t in tools + [WebSearchTool(), CodeInterpreterTool(tool_config={
        "type": "code_interpreter", "container": {"type": "auto"}})]]
    schemas = [getattr(t, "params_json_schema", None) for t in tools]
    print("RESULT " + json.dumps({"pid": os.getpid(), "outputs": outputs, "names": names, "schemas": schemas}))


if __name__ == "__main__":
    main(build())
