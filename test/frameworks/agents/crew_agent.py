"""A CrewAI agent in ReAct form. argv[1] is JSON: [[tool, arguments], ...], one a turn."""
import json
import os
import sys
from typing import Type

from crewai import Agent, BaseLLM
from crewai.tools import BaseTool, tool
from pydantic import BaseModel, Field


@tool("adder")
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool("where")
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@tool("boom")
def boom(text: str) -> str:
    """Fails."""
    raise ValueError("bad " + text)


@tool("limited", max_usage_count=2)
def limited(n: int) -> int:
    """Can be used twice."""
    return n * 10


class Arguments(BaseModel):
    text: str = Field(description="what")


class Twice(BaseTool):
    name: str = "twice"
    description: str = "doubles"
    args_schema: Type[BaseModel] = Arguments

    def _run(self, text: str) -> str:
        return text * 2


class Keyed(BaseTool):
    name: str = "keyed"
    description: str = "has a key"
    args_schema: Type[BaseModel] = Arguments
    key: str = ""

    def _run(self, text: str) -> str:
        with open(text, "w") as file:
            file.write(self.key)
        return self.key


class Scripted(BaseLLM):
    turns: list = []
    seen: list = []

    def call(self, messages, *args, **kwargs):
        self.seen[:] = [str(m["content"]) for m in messages]
        if self.turns:
            name, arguments = self.turns.pop(0)
            return "Thought: go\nAction: %s\nAction Input: %s" % (name, json.dumps(arguments))
        return "Thought: I now know the final answer\nFinal Answer: done"

    async def acall(self, *args, **kwargs):
        return self.call(*args, **kwargs)

    def supports_function_calling(self):
        return False

    def supports_stop_words(self):
        return False

    def get_context_window_size(self):
        return 8000


def main():
    llm = Scripted(model="fake", turns=json.loads(sys.argv[1]))
    twice = Twice(max_usage_count=1)
    agent = Agent(role="r", goal="g", backstory="b", llm=llm, verbose=False, cache=False,
                  tools=[add, where, boom, limited, twice, Keyed(key=os.environ["OPENAI_API_KEY"])])
    answer = agent.kickoff("go")
    return {"pid": os.getpid(), "answer": answer.raw, "seen": llm.seen[2:],
            "used": [limited.current_usage_count, twice.current_usage_count]}


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()))
