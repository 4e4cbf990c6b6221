"""An agent without a framework that calls a tool from several threads. argv: a
name for its calls, how many, and how many at once. Prints what came of each."""
import concurrent.futures
import json
import os
import sys

import bodies


def one(name):
    """What a call gave: a value, or the class, the code and the words of its error."""
    try:
        return {"name": name, "value": bodies.told(name)}
    except Exception as error:
        return {"name": name, "type": type(error).__name__, "code": getattr(error, "code", ""), "executed": getattr(error, "executed", ""),
                "message": str(error)}


def main(name, count, threads):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        ended = list(pool.map(one, ["%s-%d" % (name, n) for n in range(count)]))
    print("RESULT " + json.dumps({"pid": os.getpid(), "host": os.uname().nodename, "calls": ended}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
