# Says of each HOST:PORT whether a TCP connection to it can be made.
import json, socket, sys, threading

said = {}


def reach(target):
    host, _, port = target.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=3).close()
        said[target] = "open"
    except OSError as error:
        said[target] = "closed: %s" % error


threads = [threading.Thread(target=reach, args=(t,)) for t in sys.argv[1:]]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(json.dumps({"said": said}))
