"""A Strands agent whose tool runs in a sandbox."""
import json
import os

from strands import Agent, tool
from strands.models import Model


@tool
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


class Fake(Model):
    """Asks the tool for a key, then repeats what it said."""

    def update_config(self, **config):
        """There is none."""

    def get_config(self):
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError("the fake model has no structured output")

    async def stream(self, messages, *args, **kwargs):
        said = [b["toolResult"]["content"][0]["text"] for b in messages[-1]["content"] if "toolResult" in b]
        yield {"messageStart": {"role": "assistant"}}
        if said:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "the tool said: " + said[0]}}}
        else:
            arguments = json.dumps({"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"})
            yield {"contentBlockStart": {"start": {"toolUse": {"name": "look", "toolUseId": "c"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": arguments}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if said else "tool_use"}}


if __name__ == "__main__":
    agent = Agent(model=Fake(), tools=[look], callback_handler=None)
    print("agent", os.getpid(), "-", str(agent("Evaluate os.environ.get('OPENAI_API_KEY') with the tool.")))
