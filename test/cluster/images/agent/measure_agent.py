"""Measures, and prints the seconds that each took as JSON. argv: what (each, second
or import), how many, and the seconds between them. "each" calls a tool when it is
due; "second" calls it twice, and tells of the second; "import" starts an
interpreter that imports this."""
import json
import os
import subprocess
import sys
import time

from langchain_core.tools import tool


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def call(i):
    if add.invoke({"a": i, "b": 1}) != i + 1:
        sys.exit("the sum is wrong")


def imports(i):
    subprocess.run([sys.executable, "-c", "import measure_agent"], check=True, env=dict(os.environ, CODE_SANDBOX_TOOLS="off"))


def main(what, count, gap):
    took, start = [], time.monotonic()
    for i in range(count + 1):  # of which the first is not told: what is learnt at it is
        time.sleep(max(0, start + i * gap - time.monotonic()))
        if what == "second":
            call(i)
        began = time.monotonic()
        (imports if what == "import" else call)(i)
        took.append(time.monotonic() - began)
    print(json.dumps(took[1:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
