"""Builds the read-only root that every sandbox of this zygote sees.

It is built once, from a list of paths; a sandbox gets a copy of this small
tree of mounts with its own mount namespace.
"""

import os

import linux
import overlay

DEVICES = ("null", "zero", "full", "random", "urandom")
LINKS = {"/dev/fd": "/proc/self/fd", "/dev/stdin": "/proc/self/fd/0", "/dev/stdout": "/proc/self/fd/1",
         "/dev/stderr": "/proc/self/fd/2", "/var/tmp": "/tmp"}
MASKED_FILE, MASKED_FOLDER, SHOWN = "/masked/file", "/masked/folder", "/shown"
FOLDERS = (MASKED_FOLDER, SHOWN, overlay.LAYERS, "/dev/shm", "/etc", "/proc", "/run", "/scratch", "/sys", "/tmp", "/var", "/work")
PASSWD = "root:x:0:0::/:/bin/false\nsandbox:x:1000:1000::/tmp:/bin/sh\n"
GROUP = "root:x:0:\nsandbox:x:1000:\n"
HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
# One try, one second: the relay always answers, so waiting longer never helps.
RESOLV = "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n"

# What each sandbox mounts anew: paths below are shown there once more.
COVERED = ("/tmp/", "/work/", "/dev/shm/")

# Where the new root may be put together: a folder that hides nothing needed.
MOUNT_POINTS = ("/mnt", "/media", "/srv", "/opt", "/boot", "/tmp", "/var", "/home")


def build(config):
    """Builds the root from config["paths"] and makes it this process's root."""
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    new = _mount_point(config["paths"])
    linux.mount("tmpfs", new, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=4m,nr_inodes=4096,mode=755")
    for folder in FOLDERS:
        os.makedirs(new + folder, 0o755, exist_ok=True)
    config["late"], config["overlays"], config["live"] = [], {}, []
    attributes = linux.ATTR_NOSUID | linux.ATTR_NODEV
    if "readonly" not in config["without"]:
        attributes |= linux.ATTR_RDONLY
    folders = overlay.prepare(new, config)
    for path in config["paths"]:
        if path in folders:
            _defer(path, folders[path], new, config)
        elif os.path.isdir(path) or not overlay.covers(path, config):
            _show(path, _place(path, config), new, attributes)
    _mask_all(new, config)
    for device in DEVICES:
        _bind("/dev/" + device, new + "/dev/" + device)
    for link, target in dict(LINKS, **config["links"]).items():
        if not overlay.covers(link, config):  # such a folder has the link itself
            _link(target, _place(link, config), new)
    _write_files(new, config)
    # An unprivileged user may mount a fresh /proc only beside an uncovered one.
    if config["unprivileged"]:
        linux.mount("/proc", new + "/proc", None, linux.MS_BIND | linux.MS_REC)
    linux.enter_root(new)
    linux.restrict_mount("/", attributes, recursive=False)


def _mount_point(paths):
    for point in MOUNT_POINTS:
        below = point + "/"
        if os.path.isdir(point) and not any(p == point or p.startswith(below) for p in paths):
            return point
    raise OSError("none of the folders %s is free to build the sandbox root in" % ", ".join(MOUNT_POINTS))


def _place(path, config):
    """Where the new root has path: elsewhere when each sandbox covers it."""
    if not path.startswith(COVERED) and not overlay.covers(path, config):
        return path
    place = "%s/%d" % (SHOWN, len(config["late"]))
    config["late"].append((place, path))
    return place


def _defer(path, layer, new, config):
    """Has each sandbox show a folder as an overlay of its own."""
    if not path.startswith(COVERED):
        os.makedirs(new + path, 0o755, exist_ok=True)
    config["overlays"][path] = layer
    config["late"].append((layer, path))


def _show(path, place, new, attributes):
    """Shows path in the new root, restricted; a link stays the link it is."""
    if os.path.islink(path):
        _link(os.readlink(path), place, new)
    elif os.path.exists(path):
        _bind(path, new + place)
        linux.restrict_mount(new + place, attributes)


def _link(target, place, new):
    """Makes a link, unless the new root has something of that name."""
    if not os.path.lexists(new + place):
        os.makedirs(os.path.dirname(new + place), 0o755, exist_ok=True)
        os.symlink(target, new + place)


def reveal(source, target):
    """Shows what was put elsewhere, in a sandbox whose own mounts stand."""
    if source.startswith(overlay.LAYERS):
        os.makedirs(target, 0o755, exist_ok=True)
        overlay.show(source, target)
    elif os.path.islink(source):
        if not os.path.lexists(target):
            os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
            os.symlink(os.readlink(source), target)
    elif os.path.exists(source):
        _bind(source, target)


def _mask_all(new, config):
    """Puts an empty file or folder over each path of config["masks"] that shows."""
    with open(new + MASKED_FILE, "w"):
        pass
    for path in config["masks"]:
        if overlay.innermost(path, config) in config["overlays"]:
            continue  # hidden there by its name
        place = path
        for hidden, shown in config["late"]:
            if path == shown or path.startswith(shown + "/"):
                place = hidden + path[len(shown):]
        if os.path.lexists(new + place) and not os.path.islink(new + place):
            empty = MASKED_FOLDER if os.path.isdir(new + place) else MASKED_FILE
            linux.mount(new + empty, new + place, None, linux.MS_BIND)
            linux.restrict_mount(new + place, linux.ATTR_RDONLY | linux.ATTR_NOSUID | linux.ATTR_NODEV)


def _bind(source, target):
    if os.path.isdir(source):
        os.makedirs(target, 0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
        if not os.path.exists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    linux.mount(source, target, None, linux.MS_BIND | linux.MS_REC)


def _write_files(new, config):
    texts = {"/etc/passwd": PASSWD, "/etc/group": GROUP, "/etc/hosts": HOSTS, "/etc/resolv.conf": RESOLV}
    for path, text in texts.items():
        with open(new + path, "w") as f:
            f.write(text)
    for path, data in config["programs"].items():
        with open(new + path, "wb") as f:
            f.write(data)
        os.chmod(new + path, 0o755)
