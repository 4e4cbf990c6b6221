"""A Pydantic AI agent whose tool runs in a sandbox."""
import os

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel


def fake(messages, info):
    """Asks the tool for a key, then repeats what it said."""
    said = [p.content for p in messages[-1].parts if p.part_kind == "tool-return"]
    if said:
        return ModelResponse(parts=[TextPart("the tool said: " + str(said[0]))])
    arguments = {"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"}
    return ModelResponse(parts=[ToolCallPart("look", arguments)])


agent = Agent(os.environ.get("EXAMPLE_MODEL") or FunctionModel(fake))


@agent.tool_plain
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


if __name__ == "__main__":
    result = agent.run_sync("Evaluate os.environ.get('OPENAI_API_KEY') with the tool.")
    print("agent", os.getpid(), "-", result.output)
