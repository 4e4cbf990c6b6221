"""Says what its tool found, and what others get from the service."""
import json
import os
import urllib.error
import urllib.request

import tools


def ask(path, body=None, token=""):
    request = urllib.request.Request(os.environ["CODE_SANDBOX_URL"] + path, data=body and json.dumps(body).encode(), headers={
        "Content-Type": "application/json", "Authorization": "Bearer " + token})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


if __name__ == "__main__":
    found = tools.search()
    own = os.environ["CODE_SANDBOX_TOKEN"]
    status, listed = ask("/v1/tools", token=own)
    boot = listed["boots"][0]["boot_id"]
    private = {"boot_id": "other", "python": {"executable": "/usr/bin/python3", "prefix": os.environ["HOME"] + "/.ssh"}}
    call = {"id": "1", "boot_id": boot, "tool": "search", "framework": "tool-functions", "target": {"module": "tools", "qualname": "search"}}
    print("RESULT", json.dumps({
        "found": found, "length": len(own), "own": status,
        "others": [ask("/v1/tools")[0], ask("/v1/tools/hello", private)[0], ask("/v1/tools/call", call)[0], ask("/v1/tools", token=own[1:])[0]],
        "error": ask("/v1/tools/call", call)[1]["error"]["executed"],
    }, sort_keys=True))
