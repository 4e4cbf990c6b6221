"""The Anthropic SDK's tool runner against a fake transport. argv[1] is JSON:
[[tool, arguments], ...]; argv[2] is sync or async."""
import asyncio
import json
import os
import sys

import httpx2 as httpx
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from anthropic.lib.tools import ToolError

sent = []
calls = json.loads(sys.argv[1]) if len(sys.argv) > 1 else []


def mark(path):
    with open(path, "w") as file:
        file.write(str(os.getpid()))


@beta_tool
def add(a: int, b: int) -> str:
    """Adds.

    Args:
        a: one
        b: two
    """
    return str(a + b)


@beta_async_tool
async def shout(text: str) -> str:
    """Shouts."""
    await asyncio.sleep(0)
    return text.upper()


@beta_tool
def boom(text: str) -> str:
    """Crashes."""
    raise KeyError(text)


@beta_tool
def careful() -> str:
    """Fails as tools do."""
    raise ToolError([{"type": "text", "text": "no luck"}])


@beta_tool
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


def answer(request):
    body = json.loads(request.content)
    sent.append(body["messages"][-1]["content"])
    if len(sent) == 1:
        content = [{"type": "tool_use", "id": "c%d" % i, "name": n, "input": a} for i, (n, a) in enumerate(calls)]
        reason = "tool_use"
    else:
        content, reason = [{"type": "text", "text": "done"}], "end_turn"
    return httpx.Response(200, json={
        "id": "m", "type": "message", "role": "assistant", "model": "fake", "content": content, "stop_reason": reason,
        "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}})


OPTIONS = {"model": "fake", "max_tokens": 10, "messages": [{"role": "user", "content": "go"}]}


def main():
    transport = httpx.MockTransport(answer)
    if sys.argv[2] == "sync":
        client = Anthropic(api_key="x", http_client=httpx.Client(transport=transport))
        client.beta.messages.tool_runner(tools=[add, boom, careful, where], **OPTIONS).until_done()
    else:
        async def run():
            client = AsyncAnthropic(api_key="x", http_client=httpx.AsyncClient(transport=transport))
            await client.beta.messages.tool_runner(tools=[shout], **OPTIONS).until_done()
        asyncio.run(run())
    print("RESULT " + json.dumps({"pid": os.getpid(), "sent": sent[1:], "schema": add.to_dict()}))


if __name__ == "__main__":
    main()
