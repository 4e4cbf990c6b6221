"""An agent that is a server, with no guard around its last line; or the app of
one, for "python -m uvicorn server_agent:app"."""
import json
import os
import sys

import uvicorn
from langchain_core.tools import tool

import bodies


@tool
def look() -> str:
    """Looks around."""
    return bodies.look()


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    seen = json.loads(await look.ainvoke({}))
    body = json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "tool_host": seen["host"]}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


if "uvicorn" not in sys.argv[0]:
    uvicorn.run(app, host="0.0.0.0", port=8000, log_level="warning")
