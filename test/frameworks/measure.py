"""Times add(2, 3) through LangChain: python measure.py CALLS PAUSE.

Run it as it is, then under `code-sandbox local --`: the difference is what a
sandbox costs. The first call, which makes the first copy, is told apart.
"""
import sys
import time

from langchain_core.tools import tool


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def timed():
    """Milliseconds of one call."""
    began = time.perf_counter()
    assert add.invoke({"a": 2, "b": 3}) == 5
    return (time.perf_counter() - began) * 1000


def main(calls, pause):
    first, took = timed(), []
    for _ in range(calls):
        time.sleep(pause)
        took.append(timed())
    took.sort()
    print("first %.2f ms; then p50 %.2f ms, best %.2f ms, worst %.2f ms of %d" % (
        first, took[len(took) // 2], took[0], took[-1], calls))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
