"""An agent in a pod of an enrolled namespace: at its first line it has its
sandbox on localhost, with nothing installed and nothing configured."""

import json
import urllib.request

PROGRAM = "print(sum(range(10)) - 3)"  # what a model would have written


def run_python(code):
    request = urllib.request.Request(
        "http://localhost:8900/run_python", json.dumps({"code": code}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


answer = run_python(PROGRAM)
print(answer["stdout"].strip(), "from", answer["sandbox_id"], "in", answer["isolation"])
