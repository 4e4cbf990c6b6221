"""A LangGraph agent that calls its tools in one turn, sync and async."""
import asyncio
import json
import os

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

import bodies


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool
async def shout(text: str) -> str:
    """Shouts."""
    await asyncio.sleep(0)
    return text.upper()


@tool
def look() -> str:
    """Looks around."""
    return bodies.look()


CALLS = [("add", {"a": 2, "b": 3}), ("look", {}), ("look", {})]


def graph():
    g = StateGraph(MessagesState)
    g.add_node("tools", ToolNode([add, shout, look]))
    g.add_edge(START, "tools")
    return g.compile()


def turn(calls):
    return {"messages": [AIMessage("", tool_calls=[{"name": name, "args": args, "id": "c%d" % i} for i, (name, args) in enumerate(calls)])]}


if __name__ == "__main__":
    here = graph()
    first = here.invoke(turn(CALLS))
    then = asyncio.run(here.ainvoke(turn(CALLS + [("shout", {"text": "loud"})])))
    print("RESULT " + json.dumps({"pid": os.getpid(), "host": os.uname().nodename,
                                  "sync": [m.content for m in first["messages"][1:]], "async": [m.content for m in then["messages"][1:]]}), flush=True)
