"""An agent of the OpenAI Agents SDK. argv[1] is JSON, what its model wants called:
[[tool, arguments], ...]. Prints what came of each."""
import asyncio
import json
import os
import sys

from agents import Agent, ModelResponse, Runner, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic import BaseModel

import bodies


class Query(BaseModel):
    city: str


class Weather(BaseModel):
    city: str
    degrees: float


def told(context, error):
    """What the model is told of a failure: all of it, for the tests."""
    return "%s: %s" % (type(error).__name__, error)


@function_tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@function_tool(failure_error_function=told)
def look() -> str:
    """Looks around."""
    return bodies.look()


@function_tool
async def weather(query: Query) -> Weather:
    """Tells the weather."""
    await asyncio.sleep(0)
    return Weather(city=query.city, degrees=21.5)


@function_tool(failure_error_function=told)
def fetch(url: str) -> str:
    """Fetches."""
    return bodies.fetch(url)


@function_tool(failure_error_function=told)
def read(path: str) -> str:
    """Reads a file."""
    with open(path) as file:
        return file.read()


@function_tool(failure_error_function=told)
def dial(host: str, port: int) -> str:
    """Connects."""
    return bodies.dial(host, port)


@function_tool(failure_error_function=told)
def use_key() -> str:
    """Calls a service with the key."""
    return bodies.use_key()


@function_tool(failure_error_function=told)
def marked(path: str, then: str) -> str:
    """Leaves a mark."""
    return bodies.marked(path, then)


class Written(Model):
    """A model whose answers are written beforehand."""

    def __init__(self, calls):
        self.turns = [[ResponseFunctionToolCall(type="function_call", call_id="c%d" % i, name=name, arguments=json.dumps(arguments))
                       for i, (name, arguments) in enumerate(calls)],
                      [ResponseOutputMessage(id="m", role="assistant", status="completed", type="message",
                                             content=[ResponseOutputText(type="output_text", text="done", annotations=[])])]]

    async def get_response(self, *args, **kwargs):
        return ModelResponse(output=self.turns.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError("the tests do not stream")


def main(calls):
    agent = Agent(name="agent", model=Written(calls), tools=[add, look, weather, fetch, read, dial, use_key, marked])
    ended = Runner.run_sync(agent, "go")
    said = [str(item.output) for item in ended.new_items if item.type == "tool_call_output_item"]
    left = [name for name, arguments in calls if "path" in arguments and os.path.exists(arguments["path"])]
    print("RESULT " + json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "said": said, "marks": left}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
