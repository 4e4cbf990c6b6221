"""A Google ADK agent. argv[1] is JSON: [[tool, arguments], ...]."""
import asyncio
import json
import os
import sys
import time

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, ToolContext
from google.genai import types


def mark(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))


def add(a: int, b: int) -> dict:
    """Adds."""
    return {"sum": a + b}


async def shout(text: str) -> str:
    """Shouts."""
    await asyncio.sleep(0)
    return text.upper()


def slow(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "slept"


def where() -> dict:
    """Says where it runs."""
    return {"pid": os.getpid(), "env": dict(os.environ)}


def with_context(path: str, tool_context: ToolContext) -> str:
    """Takes the tool context."""
    mark(path)
    return "ctx"


def boom(text: str) -> str:
    """Fails."""
    raise ValueError("bad " + text)


CALLS = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is None:
            parts = [types.Part(function_call=types.FunctionCall(id="c%d" % i, name=n, args=a))
                     for i, (n, a) in enumerate(CALLS)]
        else:
            parts = [types.Part(text="done")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


async def main():
    agent = Agent(name="a", model=Scripted(model="fake"),
                  tools=[add, shout, slow, where, with_context, boom, FunctionTool(add)][:6])
    runner = InMemoryRunner(agent=agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    beats, results, error = [], [], ""

    async def heart():
        while True:
            beats.append(time.monotonic())
            await asyncio.sleep(0.05)

    beating = asyncio.ensure_future(heart())
    try:
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=types.Content(
                role="user", parts=[types.Part(text="go")])):
            for part in (event.content.parts if event.content else []):
                if part.function_response is not None:
                    results.append([part.function_response.name, part.function_response.response])
    except Exception as problem:
        error = "%s: %s" % (type(problem).__name__, problem)
    beating.cancel()
    gaps = [b - a for a, b in zip(beats, beats[1:])]
    return {"pid": os.getpid(), "results": sorted(results, key=str), "error": error, "gap": max(gaps or [0])}


if __name__ == "__main__":
    print("RESULT " + json.dumps(asyncio.run(main())))
