# Says what there is to find in a sandbox: tokens, places to write to, users,
# resolvers, and whether the names in the arguments are found.
import json, os, socket, sys

MINE = ("/work", "/tmp", "/dev/shm", "/dev/mqueue", "/proc")


def tokens():
    found = []
    for top in ("/var/run/secrets", "/run/secrets"):
        for folder, _, files in os.walk(top):
            for name in files:
                path = os.path.join(folder, name)
                if os.access(path, os.R_OK):
                    found.append(path)
    try:
        if open("/proc/1/environ", "rb").read():
            found.append("/proc/1/environ")
    except OSError:
        pass
    return found + [k for k in os.environ if k.startswith(("KUBERNETES_", "CODE_SANDBOX_"))]


def folders(top, depth):
    yield top
    try:
        inside = [e.path for e in os.scandir(top) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for path in inside:
        if not path.startswith(MINE) and depth:
            yield from folders(path, depth - 1)


def writable():
    found = []
    for folder in folders("/", 2):
        path = os.path.join(folder, ".code-sandbox-doctor")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            found.append(folder)
            os.unlink(path)
        except OSError:
            pass
    for path in ("/etc/passwd", "/etc/hosts", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/fs/cgroup/cgroup.procs"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
            found.append(path)
        except OSError:
            pass
    return found


def look_up(name):
    try:
        return sorted({a[4][0] for a in socket.getaddrinfo(name, None)})
    except OSError as error:
        return str(error)


def resolvers():
    try:
        lines = [line.split() for line in open("/etc/resolv.conf")]
    except OSError:
        return []
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


users = [[int(n) for n in line.split()] for line in open("/proc/self/uid_map")]
print(json.dumps({"tokens": tokens(), "writable": writable(), "uid_map": users, "resolvers": resolvers(),
                  "names": {name: look_up(name) for name in sys.argv[1:]}}))
