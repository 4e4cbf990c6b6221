"""A smolagents ToolCallingAgent. argv[1] is JSON: turns of one tool call each,
[[tool, arguments], ...]. argv[2] code runs a CodeAgent on argv[1] as code."""
import inspect
import json
import os
import sys

from smolagents import ChatMessage, CodeAgent, PythonInterpreterTool, Tool, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model


@tool
def add(a: int, b: int) -> int:
    """Adds.

    Args:
        a: one
        b: two
    """
    return a + b


@tool
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@tool
def boom(text: str) -> str:
    """Fails.

    Args:
        text: what
    """
    raise ValueError("bad " + text)


class Twice(Tool):
    name = "twice"
    description = "doubles"
    inputs = {"text": {"type": "string", "description": "what"}}
    output_type = "string"

    def forward(self, text: str) -> str:
        return text * 2


class Keyed(Tool):
    name = "keyed"
    description = "has a key"
    inputs = {"path": {"type": "string", "description": "where"}}
    output_type = "string"

    def __init__(self, key):
        super().__init__()
        self.key = key

    def forward(self, path: str) -> str:
        with open(path, "w") as file:
            file.write(self.key)
        return self.key


class Scripted(Model):
    def __init__(self, turns):
        super().__init__()
        self.turns = turns

    def generate(self, messages, **kwargs):
        if sys.argv[2:] == ["code"]:
            return ChatMessage(role=MessageRole.ASSISTANT, content=self.turns.pop(0))
        name, arguments = self.turns.pop(0) if self.turns else ("final_answer", {"answer": "done"})
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[ChatMessageToolCall(
            id="c", type="function", function=ChatMessageToolCallFunction(name=name, arguments=arguments))])


def main():
    turns = json.loads(sys.argv[1])
    if sys.argv[2:] == ["code"]:
        agent = CodeAgent(tools=[add], model=Scripted(turns), max_steps=4, verbosity_level=0,
                          additional_authorized_imports=["os"])
    else:
        agent = ToolCallingAgent(tools=[add, where, boom, Twice(), Keyed(os.environ["OPENAI_API_KEY"]),
                                        PythonInterpreterTool(authorized_imports=None)],
                                 model=Scripted(turns), max_steps=6, verbosity_level=0)
    answer = agent.run("go")
    steps = [[s.observations, str(getattr(s, "error", None))] for s in agent.memory.steps if hasattr(s, "observations")]
    return {"pid": os.getpid(), "answer": str(answer), "steps": steps, "source": inspect.getsource(add.forward)[:20]}


if __name__ == "__main__":
    print("RESULT " + json.dumps(main()))
