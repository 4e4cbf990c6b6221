"""A smolagents ToolCallingAgent whose tool runs in a sandbox."""
import os

from smolagents import ChatMessage, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model


@tool
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote.

    Args:
        expression: what to evaluate
    """
    return str(eval(expression, {"os": os}))


class Fake(Model):
    """Asks the tool for a key, then repeats what it said."""

    asked = False

    def generate(self, messages, **kwargs):
        name, arguments = "look", {"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"}
        if self.asked:
            name, arguments = "final_answer", {"answer": "the tool said: " + str(messages[-1].content)}
        self.asked = True
        call = ChatMessageToolCallFunction(name=name, arguments=arguments)
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[
            ChatMessageToolCall(id="c", type="function", function=call)])


if __name__ == "__main__":
    agent = ToolCallingAgent(tools=[look], model=Fake(), verbosity_level=0)
    print("agent", os.getpid(), "-", agent.run("Evaluate os.environ.get('OPENAI_API_KEY') with the tool."))
