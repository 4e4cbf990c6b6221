"""A Pydantic AI agent. argv[1] is JSON: turns of tool calls,
[[[tool, arguments], ...], ...]."""
import asyncio
import dataclasses
import datetime
import json
import os
import sys

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, Tool, ToolReturn
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


class Trip(BaseModel):
    start: datetime.date
    days: int = 1


@dataclasses.dataclass
class Plan:
    end: datetime.date
    trip: Trip


def plain(days: int) -> int:
    """Given as a Tool object."""
    return days * 24


turns = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []


def answer(messages, info):
    if turns:
        return ModelResponse(parts=[ToolCallPart(n, a) for n, a in turns.pop(0)])
    return ModelResponse(parts=[TextPart("done")])


agent = Agent(FunctionModel(answer), tools=[Tool(plain, name="hours")], retries=2)


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@agent.tool_plain
async def plan(trip: Trip) -> Plan:
    """Plans."""
    await asyncio.sleep(0)
    return Plan(end=trip.start + datetime.timedelta(days=trip.days), trip=trip)


@agent.tool_plain
def even(n: int) -> str:
    """Wants an even number."""
    if n % 2:
        raise ModelRetry("%d is odd, give an even number" % n)
    return "%d is fine" % n


@agent.tool_plain
def rich() -> ToolReturn:
    """Returns more than a value."""
    return ToolReturn(return_value="seen", content="for the model", metadata={"k": 1})


@agent.tool_plain
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@agent.tool
def with_context(ctx: RunContext[None], path: str) -> str:
    """Takes the run's context."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    return "retry %d" % ctx.retry


if __name__ == "__main__":
    out = {"pid": os.getpid()}
    try:
        result = agent.run_sync("go")
        out["parts"] = [[type(p).__name__, getattr(p, "tool_name", ""), str(getattr(p, "content", "")),
                         str(getattr(p, "metadata", ""))]
                        for m in result.all_messages() for p in m.parts if "call" not in p.part_kind]
    except Exception as error:
        out["error"] = "%s: %s" % (type(error).__name__, error)
    print("RESULT " + json.dumps(out))
