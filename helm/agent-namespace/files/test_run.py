import json, urllib.request

# An agent's first line of code: the sidecar is there before it.
body = json.dumps({"code": "print(6 * 7)"}).encode()
request = urllib.request.Request("http://localhost:8900/run_python", body, {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(request, timeout=150))
print(json.dumps(answer))
assert answer["outcome"] == "ok" and answer["stdout"] == "42\n", "the answer is not 42"
