"""A Strands agent. argv[1] is JSON: [[tool, arguments], ...]."""
import asyncio
import json
import os
import sys
import time

from strands import Agent, tool
from strands.models import Model


@tool
def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: one
        b: two
    """
    return a + b


@tool
async def shout(text: str) -> str:
    """Shouts."""
    await asyncio.sleep(0)
    return text.upper()


@tool
async def progress(n: int):
    """Reports progress."""
    for i in range(n):
        await asyncio.sleep(0.3)
        yield "step %d" % i
    yield {"status": "success", "content": [{"text": "all %d" % n}]}


@tool
def boom(text: str) -> str:
    """Fails."""
    raise LookupError("none of " + text)


@tool
def bad_value() -> str:
    """Fails with a ValueError."""
    raise ValueError("bad")


@tool
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@tool
def with_agent(path: str, agent: Agent) -> str:
    """Takes the agent."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    return "agent " + type(agent).__name__


class Box:
    @tool
    def size(self, n: int) -> int:
        """A method."""
        return n * 2


box = Box()


class Scripted(Model):
    def __init__(self, calls):
        self.calls = calls

    def update_config(self, **kwargs):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, *args, **kwargs):
        calls, self.calls = self.calls, []
        yield {"messageStart": {"role": "assistant"}}
        for i, (name, arguments) in enumerate(calls):
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": "c%d" % i}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


async def main():
    agent = Agent(model=Scripted(json.loads(sys.argv[1])), callback_handler=None,
                  tools=[add, shout, progress, boom, bad_value, where, with_agent, box.size])
    streamed, times = [], []
    async for event in agent.stream_async("go"):
        if "tool_stream_event" in event:
            streamed.append(event["tool_stream_event"]["data"])
            times.append(time.monotonic())
    results = [b["toolResult"] for m in agent.messages for b in m["content"] if "toolResult" in b]
    return {"pid": os.getpid(), "results": results, "streamed": streamed,
            "spread": times[-1] - times[0] if times else 0, "specs": [t.tool_spec for t in (add, shout, progress)]}


if __name__ == "__main__":
    print("RESULT " + json.dumps(asyncio.run(main())))
