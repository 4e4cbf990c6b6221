"""An MCP server over streamable HTTP, of the MCP SDK (argv[1] mcp) or of
FastMCP (argv[1] fastmcp), on port argv[2]. It has no main guard."""
import json
import os
import sys
from typing import List

from pydantic import BaseModel

if sys.argv[1:2] == ["fastmcp"] or "fastmcp" in os.environ.get("VIRTUAL_ENV", ""):
    from fastmcp import Context, FastMCP
    from fastmcp.exceptions import ToolError
    from fastmcp.utilities.types import Image  # noqa: F401
    server = FastMCP("s")
else:
    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    server = MCPServer("s")


class Point(BaseModel):
    x: int
    y: int
    label: str = "p"


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def points(n: int) -> List[Point]:
    """Makes points."""
    return [Point(x=i, y=i * i) for i in range(n)]


@server.tool()
async def point(p: Point) -> Point:
    """Moves a point."""
    return Point(x=p.x + 1, y=p.y, label="moved")


@server.tool()
def boom() -> str:
    """Fails as tools do."""
    raise ToolError("no luck")


@server.tool()
def crash() -> str:
    """Crashes."""
    return str(1 // 0)


@server.tool()
def where() -> str:
    """Says where it runs."""
    return json.dumps({"pid": os.getpid(), "env": dict(os.environ)})


@server.tool()
async def with_context(path: str, ctx: Context) -> str:
    """Takes the request's context."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    return "ctx"


server.run(transport="streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
