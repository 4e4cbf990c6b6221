# Starts as many threads as the argument says, all of them alive at once.
import json, os, sys, threading

threading.stack_size(64 << 10)
end = threading.Event()
started, refused = 0, ""
try:
    for _ in range(int(sys.argv[1])):
        threading.Thread(target=end.wait, daemon=True).start()
        started += 1
except (RuntimeError, OSError) as error:
    refused = str(error)
print(json.dumps({"started": started, "refused": refused}), flush=True)
os._exit(0)
