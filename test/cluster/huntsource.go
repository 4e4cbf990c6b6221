package cluster

// huntSource is a program with a function that looks for what starts with a
// prefix wherever a program finds credentials, and tells only where it was.
const huntSource = `import os

def hunt(prefix):
    found = []
    def look(where, text):
        if prefix in text:
            found.append(where)
    for name, value in os.environ.items():
        look("env " + name, value)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                with open("/proc/%s/%s" % (pid, name), errors="replace") as f:
                    look("proc " + name, f.read())
            except OSError:
                pass
    for top in ("/home", "/etc", "/run", "/var/run", "/tmp", "/opt", "/dev/shm"):
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    if os.path.isfile(path) and path != __file__:
                        with open(path, errors="replace") as f:
                            look("file " + path, f.read(1 << 20))
                except OSError:
                    pass
    return sorted(set(found))

def size(path):
    disk = os.statvfs(path)
    return disk.f_blocks * disk.f_frsize

def fill(path):
    with open(path + "/full", "wb") as f:
        try:
            while True:
                f.write(bytes(1 << 20))
        except OSError as e:
            return [os.fstat(f.fileno()).st_size, e.strerror]

def room(filled, places):
    fill(filled)
    return [os.statvfs(p).f_bavail for p in places]

def add(a, b):
    return a + b
`
