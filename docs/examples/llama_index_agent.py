"""A LlamaIndex FunctionAgent whose tool runs in a sandbox."""
import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool


def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


def fake(messages, **kwargs):
    """Asks the tool for a key, then repeats what it said."""
    if messages[-1].role == "tool":
        return ChatMessage(role="assistant", content="the tool said: " + str(messages[-1].content))
    arguments = {"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"}
    return ChatMessage(role="assistant", blocks=[ToolCallBlock(
        tool_call_id="c", tool_name="look", tool_kwargs=arguments)])


async def main():
    agent = FunctionAgent(tools=[FunctionTool.from_defaults(look)], streaming=False,
                          llm=MockFunctionCallingLLM(response_generator=fake))
    return await agent.run("Evaluate os.environ.get('OPENAI_API_KEY') with the tool.")


if __name__ == "__main__":
    print("agent", os.getpid(), "-", asyncio.run(main()))
