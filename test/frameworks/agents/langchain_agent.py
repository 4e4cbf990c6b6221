"""A LangGraph agent. argv[1] is JSON: [[tool, arguments], ...], called in one
turn; argv[2] says sync or async."""
import asyncio
import json
import os
import sys
from typing import Annotated, Optional

from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, Tool, ToolException, tool
from langchain_experimental.tools.python.tool import PythonAstREPLTool, PythonREPLTool
from langchain_experimental.utilities.python import PythonREPL
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.types import Command


def mark(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))


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
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@tool
def boom(text: str) -> str:
    """Fails."""
    raise KeyError(text)


@tool(response_format="content_and_artifact")
def picture(name: str):
    """Gives content and artifact."""
    return "drew " + name, {"bytes": b"\x00\xff", "size": (2, 3)}


def _careful(text: str) -> str:
    """Raises a ToolException."""
    raise ToolException("no such " + text)


careful = StructuredTool.from_function(_careful, name="careful", handle_tool_error=True)
repl = Tool(name="repl_method", func=PythonREPL().run, description="runs Python")
shorter = Tool(name="shorter", func=lambda s: s[:3], description="cuts")


@tool
def with_state(path: str, state: Annotated[dict, InjectedState]) -> str:
    """Takes the graph's state."""
    mark(path)
    return "n=%d" % len(state["messages"])


@tool
def with_config(path: str, config: RunnableConfig) -> str:
    """Takes the run's configuration."""
    mark(path)
    return "config"


@tool
def steer(path: str, call: Annotated[str, InjectedToolCallId]) -> Command:
    """Steers the graph."""
    mark(path)
    return Command(update={"messages": [ToolMessage("steered", tool_call_id=call)]})


@tool
def jump(path: str) -> Command:
    """Steers the graph, without a parameter of the framework's."""
    mark(path)
    return Command(update={}, goto="__end__")


class Search(BaseTool):
    name: str = "search"
    description: str = "searches"
    limit: int = 3

    def _run(self, query: str, run_manager: Optional[CallbackManagerForToolRun] = None) -> list:
        return [query] * self.limit + [os.getpid() if query == "pid" else 0]


class Stateless(Search):
    name: str = "stateless"

    async def _arun(self, query: str) -> str:
        return "async " + query


class Client:
    """What holds a key."""

    def __init__(self, key):
        self.key = key


class Keyed(BaseTool):
    name: str = "keyed"
    description: str = "has a client"
    client: object = None

    def _run(self, path: str) -> str:
        mark(path)
        return self.client.key


search = Search(limit=2)


def build(model):
    tools = [add, shout, where, boom, picture, careful, shorter, with_state, with_config, steer, jump, search,
             Stateless(), Keyed(client=Client(os.environ["OPENAI_API_KEY"])), PythonREPLTool(), PythonAstREPLTool(), repl]
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(), tools


def main():
    calls = json.loads(sys.argv[1])

    def model(state):
        if isinstance(state["messages"][-1], HumanMessage):
            return {"messages": [AIMessage("", tool_calls=[
                {"name": n, "args": a, "id": "c%d" % i} for i, (n, a) in enumerate(calls)])]}
        return {"messages": [AIMessage("done")]}

    graph, tools = build(model)
    start = {"messages": [HumanMessage("go")]}
    if sys.argv[2] == "async":
        out = asyncio.run(graph.ainvoke(start))
    else:
        out = graph.invoke(start)
    told = [[m.name, m.content, repr(m.artifact), m.status] for m in out["messages"] if isinstance(m, ToolMessage)]
    print("RESULT " + json.dumps({"pid": os.getpid(), "told": told, "args": [t.args for t in tools]}))


if __name__ == "__main__":
    main()
