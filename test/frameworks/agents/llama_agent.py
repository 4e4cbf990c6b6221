"""A LlamaIndex FunctionAgent. argv[1] is JSON: [[tool, arguments], ...]."""
import asyncio
import json
import os
import sys

from llama_index.core.agent.workflow import FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
from llama_index.core.llms import MockLLM  # noqa: F401
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context


def mark(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


async def shout(text: str) -> str:
    """Shouts."""
    await asyncio.sleep(0)
    return text.upper()


def blocks(text: str) -> TextBlock:
    """Returns a content block."""
    return TextBlock(text="block " + text)


def boom(text: str) -> str:
    """Fails."""
    raise ValueError("bad " + text)


def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


async def with_context(ctx: Context, path: str) -> str:
    """Takes the workflow's context."""
    mark(path)
    return "ctx"


def scale(factor: int, x: int) -> int:
    """Scales; the factor is bound."""
    return factor * x


TOOLS = [FunctionTool.from_defaults(f) for f in (add, boom, where)] + [
    FunctionTool.from_defaults(async_fn=shout), FunctionTool.from_defaults(blocks),
    FunctionTool.from_defaults(async_fn=with_context),
    FunctionTool.from_defaults(scale, partial_params={"factor": 3})]


async def main():
    calls = json.loads(sys.argv[1])
    state = {"calls": calls}

    def answer(messages, **kwargs):
        calls, state["calls"] = state["calls"], []
        if calls:
            return ChatMessage(role="assistant", blocks=[
                ToolCallBlock(tool_call_id="c%d" % i, tool_name=n, tool_kwargs=a) for i, (n, a) in enumerate(calls)])
        return ChatMessage(role="assistant", content="done")

    agent = FunctionAgent(tools=list(TOOLS), llm=MockFunctionCallingLLM(response_generator=answer), streaming=False)
    handler = agent.run("go")
    results = []
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            results.append([event.tool_name, event.tool_output.content, event.tool_output.is_error])
    await handler
    return {"pid": os.getpid(), "results": sorted(results), "schemas": [t.metadata.get_parameters_dict() for t in TOOLS]}


if __name__ == "__main__":
    print("RESULT " + json.dumps(asyncio.run(main())))
