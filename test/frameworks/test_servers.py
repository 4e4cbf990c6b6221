"""T13: agents that are servers, under uvicorn and gunicorn."""
import os
import sys

import servers
import world

TOOLS = "import os\ndef where():\n    return os.getpid()\n"
ASGI = """
import json, os
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
import tools
KEY = os.environ["OPENAI_API_KEY"]
def root(request):
    return JSONResponse([tools.where(), os.getpid(), KEY.startswith("sk-")])
app = Starlette(routes=[Route("/", root)])
"""
WSGI = """
import json, os
import tools
LOADED_BY = os.getpid()
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps([tools.where(), os.getpid(), LOADED_BY]).encode()]
"""
UNGUARDED = ASGI + """
import sys, uvicorn
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]))
"""


def environment(folder, sidecar, **more):
    return world.environment(PYTHONPATH=os.pathsep.join([world.HOOK, str(folder)]), CODE_SANDBOX_URL=sidecar.url,
                             CODE_SANDBOX_TOOL_FUNCTIONS="tools:*", **more)


def bodies_ran_elsewhere(answers, sidecar):
    for tool, server, *_ in answers:
        assert tool != server and tool in [call["pid"] for call in sidecar.calls]


def test_t13_uvicorn_with_two_workers(tmp_path, sidecar):
    world.program(tmp_path, tools=TOOLS, app=ASGI)
    port = servers.free_port()
    command = [sys.executable, "-m", "uvicorn", "app:app", "--workers", "2", "--port", str(port)]
    answers, _ = servers.ask(command, port, environment(tmp_path, sidecar), str(tmp_path), 4)
    bodies_ran_elsewhere(answers, sidecar)
    assert all(a[2] for a in answers), "the agent itself keeps its key"


def test_t13_gunicorn_with_preload(tmp_path, sidecar):
    world.program(tmp_path, tools=TOOLS, app=WSGI)
    port = servers.free_port()
    command = [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-b", "127.0.0.1:%d" % port, "app:app"]
    answers, _ = servers.ask(command, port, environment(tmp_path, sidecar), str(tmp_path), 4)
    bodies_ran_elsewhere(answers, sidecar)
    assert all(server != loader for _, server, loader in answers), "the workers are forks"


def test_t13_uvicorn_run_without_main_guard(tmp_path, sidecar):
    tools_in_main = UNGUARDED.replace("import tools\n", "from registered import tool\n@tool\ndef where():\n"
                                      "    return os.getpid()\n").replace("tools.where", "where")
    registered = "from code_sandbox_hook import proxy\ndef tool(fn): return proxy.guard(fn, 'test')\n"
    main = world.program(tmp_path, main=tools_in_main, registered=registered)
    port = servers.free_port()
    answers, out = servers.ask([sys.executable, main, str(port)], port, environment(tmp_path, sidecar), str(tmp_path), 2)
    bodies_ran_elsewhere(answers, sidecar)
