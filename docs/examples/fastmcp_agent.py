"""A FastMCP server, and a client in the same process."""
import asyncio
import os

from fastmcp import Client, FastMCP

server = FastMCP("demo")


@server.tool
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


async def main():
    async with Client(server) as client:
        result = await client.call_tool("look", {"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"})
    print("agent", os.getpid(), "- the tool said:", result.content[0].text)


if __name__ == "__main__":
    asyncio.run(main())
