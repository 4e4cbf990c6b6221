"""Does what its first argument says."""
import os
import signal
import sys
import threading
import time

import tools

if __name__ == "__main__":
    what = sys.argv[1]
    if what == "exit":
        print("stdin:", sys.stdin.read(), flush=True)
        print("to stderr", file=sys.stderr)
        sys.exit(int(sys.argv[2]))
    elif what == "signal":
        os.kill(os.getpid(), int(sys.argv[2]))
    elif what == "wait":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
        print("waiting", flush=True)
        time.sleep(30)
    elif what == "parallel":
        threads = [threading.Thread(target=tools.slow) for _ in range(int(sys.argv[2]))]
        [t.start() for t in threads]
        [t.join() for t in threads]
    elif what == "fetch":
        for tool, url in zip(sys.argv[2::2], sys.argv[3::2]):
            try:
                print(getattr(tools, tool)(url))
            except Exception as e:
                print(type(e).__name__, e)
    elif what == "time":
        tools.add(2, 3)  # the first call makes the copy
        time.sleep(float(sys.argv[3]))
        took = []
        for _ in range(int(sys.argv[2])):
            began = time.perf_counter()
            assert tools.add(2, 3) == 5
            took.append((time.perf_counter() - began) * 1000)
            time.sleep(0.4)
        took.sort()
        print("p50 %.2f ms, best %.2f ms, worst %.2f ms" % (took[len(took) // 2], took[0], took[-1]))
