"""Calls the MCP endpoint as an agent does, in each way this client knows."""

import asyncio
import sys

from mcp import Client


async def check(url, picture, mode):
    async with Client(url, mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert [t.name for t in tools] == ["run_python"], tools
        assert tools[0].input_schema["required"] == ["code"], tools

        res = await client.call_tool("run_python", {"code": "print", "args": ["é"]})
        assert not res.is_error, res
        assert [c.text for c in res.content] == ["print é", "result: 2"], res
        assert res.structured_content["stdout"] == "print é", res

        res = await client.call_tool("run_python", {"code": "picture"})
        assert [c.type for c in res.content] == ["text", "text", "image", "text"], res
        assert (res.content[2].data, res.content[2].mime_type) == (picture, "image/png"), res

        res = await client.call_tool("run_python", {"code": "fails"})
        assert res.is_error and res.content[0].text == "stderr:\nTraceback", res

        res = await client.call_tool("run_python", {"code": "x", "timeout_seconds": 1000})
        assert res.is_error and "over the limit of 300" in res.content[0].text, res


for mode in ("auto", "legacy"):
    asyncio.run(check(*sys.argv[1:], mode))
print("all is well")
