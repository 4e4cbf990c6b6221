"""An OpenAI Agents agent whose tool runs in a sandbox."""
import asyncio
import json
import os

from agents import Agent, ModelResponse, Runner, Usage, function_tool
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText


@function_tool
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


class Fake(Model):
    """Asks the tool for a key, then repeats what it said."""

    async def get_response(self, system_instructions, input, *args, **kwargs):
        said = [i["output"] for i in input if isinstance(i, dict) and i.get("type") == "function_call_output"]
        if said:
            text = ResponseOutputText(type="output_text", text="the tool said: " + said[0], annotations=[])
            output = ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[text])
        else:
            arguments = json.dumps({"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"})
            output = ResponseFunctionToolCall(type="function_call", id="f", call_id="c", name="look", arguments=arguments)
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError("the fake model does not stream")


if __name__ == "__main__":
    agent = Agent(name="demo", tools=[look], model=os.environ.get("EXAMPLE_MODEL") or Fake())
    result = asyncio.run(Runner.run(agent, "Evaluate os.environ.get('OPENAI_API_KEY') with the tool."))
    print("agent", os.getpid(), "-", result.final_output)
