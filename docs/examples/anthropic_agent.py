"""The Anthropic SDK's tool runner, with a fake service behind its client."""
import json
import os

import httpx2
from anthropic import Anthropic, beta_tool


@beta_tool
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


def fake(request):
    """Asks the tool for a key, then repeats what it said."""
    last = json.loads(request.content)["messages"][-1]["content"]
    if isinstance(last, list):
        content, reason = [{"type": "text", "text": "the tool said: " + str(last[0]["content"])}], "end_turn"
    else:
        expression = "os.environ.get('OPENAI_API_KEY'), os.getpid()"
        content = [{"type": "tool_use", "id": "c", "name": "look", "input": {"expression": expression}}]
        reason = "tool_use"
    return httpx2.Response(200, json={
        "id": "m", "type": "message", "role": "assistant", "model": "fake", "content": content, "stop_reason": reason,
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}})


if __name__ == "__main__":
    client = Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(fake)))
    final = client.beta.messages.tool_runner(
        model="fake", max_tokens=100, tools=[look],
        messages=[{"role": "user", "content": "Evaluate os.environ.get('OPENAI_API_KEY') with the tool."}]).until_done()
    print("agent", os.getpid(), "-", final.content[0].text)
