#!/usr/bin/env python3
"""T21: what the hook adds to the start of a program, in paired runs.

    python bench_start.py [PYTHON] [MODULE ...]

For each module (none: an empty program) the same interpreter imports it with
and without the hook, alternating, and defines a hundred tools where it can.
Prints medians and the median of the pairs' differences, in milliseconds.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

import sidecar as sidecars
import world

PAIRS = 15
COUNT = int(os.environ.get("BENCH_TOOLS", "20"))  # tools of a program
MOST = 50.0  # milliseconds that the hook may add
TOOLS = {
    "agents": "from agents import function_tool as tool",
    "langchain_core.tools": "from langchain_core.tools import tool",
    "pydantic_ai": "from pydantic_ai import Tool as tool",
}
MAKE = "".join("\n\n@tool\ndef f%d(a: int, b: int) -> int:\n    'Adds.'\n    return a + b\n" % n for n in range(COUNT))


def once(python, program, env):
    """Wall and processor milliseconds of one run."""
    begin = time.perf_counter()
    process = subprocess.Popen([python, program], env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit("the program failed")
    return (time.perf_counter() - begin) * 1000, (used.ru_utime + used.ru_stime) * 1000


def paired(python, module, url, pairs):
    """The times of so many runs without and with the hook, side by side."""
    program = "pass" if not module else "import " + module
    if module in TOOLS:
        program = TOOLS[module] + MAKE
    with tempfile.TemporaryDirectory() as compiled:  # as a program that may keep what it compiles
        plain_env = world.environment(PYTHONPYCACHEPREFIX=compiled)
        file = os.path.join(compiled, "program.py")
        with open(file, "w") as text:
            text.write(program)
        hooked_env = dict(plain_env, PYTHONPATH=world.HOOK, CODE_SANDBOX_URL=url)
        for env in (plain_env, hooked_env):
            env.pop("PYTHONDONTWRITEBYTECODE", None)
            once(python, file, env)  # files in the page cache
        return [(once(python, file, plain_env), once(python, file, hooked_env)) for _ in range(pairs)]


def more(module, url, pairs):
    """The processor milliseconds that the hook adds: the median of the differences."""
    return statistics.median(b[1] - a[1] for a, b in paired(sys.executable, module, url, pairs))


def measure(python, module, url):
    pairs = paired(python, module, url, PAIRS)
    for index, what in ((0, "wall"), (1, "processor")):
        print("%-22s %-9s without %7.1f  with %7.1f  more %6.1f ms (medians of %d pairs)" % (
            module or "empty program", what, statistics.median(a[index] for a, _ in pairs),
            statistics.median(b[index] for _, b in pairs),
            statistics.median(b[index] - a[index] for a, b in pairs), PAIRS))


def main():
    python = sys.argv[1] if len(sys.argv) > 1 else sys.executable
    with sidecars.Sidecar() as running:
        for module in sys.argv[2:] or [""]:
            measure(python, module, running.url)


if __name__ == "__main__":
    main()
