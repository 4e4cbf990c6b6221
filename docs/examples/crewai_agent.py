"""A CrewAI agent whose tool runs in a sandbox."""
import json
import os

from crewai import Agent, BaseLLM
from crewai.tools import tool


@tool("look")
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


class Fake(BaseLLM):
    """Asks the tool for a key, then repeats what it said."""

    def call(self, messages, *args, **kwargs):
        said = [m["content"].split("Observation:")[1] for m in messages if "\nObservation: (" in str(m["content"])]
        if said:
            return "Thought: I now know the final answer\nFinal Answer: the tool said: " + said[0].strip()
        arguments = json.dumps({"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"})
        return "Thought: I look\nAction: look\nAction Input: " + arguments

    async def acall(self, *args, **kwargs):
        return self.call(*args, **kwargs)

    def supports_function_calling(self):
        return False


if __name__ == "__main__":
    agent = Agent(role="demo", goal="answer", backstory="none", llm=Fake(model="fake"), tools=[look])
    print("agent", os.getpid(), "-", agent.kickoff("Evaluate os.environ.get('OPENAI_API_KEY') with the tool.").raw)
