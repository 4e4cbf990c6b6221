"""A tool that looks for planted credentials wherever a program can look."""
import gc
import os
import re
import stat
import sys

PLANTED = re.compile(rb"PLANT-([a-z]+)-[0-9a-f]{16}")
MOST_FILES = 20000
KEY = None


def search(roots: list) -> dict:
    """The kinds that were found, each with the places."""
    found = {}

    def look(data, place):
        for match in PLANTED.finditer(data):
            found.setdefault(match.group(1).decode(), []).append(place)

    for name, text in os.environ.items():
        look(text.encode(), "environment " + name)
    for place, data in files(roots):
        look(data, place)
    for place, data in processes():
        look(data, place)
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, str):
                look(value.encode("utf-8", "replace"), "global " + name)
    for thing in gc.get_objects():
        if type(thing) is dict:
            for value in list(thing.values()):
                if type(value) is str:
                    look(value.encode("utf-8", "replace"), "memory")
    return {kind: sorted(set(places))[:5] for kind, places in found.items()}


def files(roots):
    """Every file below the roots, hidden ones too."""
    count = 0
    for root in roots:
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                count += 1
                if count > MOST_FILES:
                    return
                data = read(path)
                if data:
                    yield path, data


def processes():
    """What /proc shows of every process, and what the descriptors of this one lead to."""
    for pid in os.listdir("/proc"):
        if not pid.isdigit():
            continue
        for name in ("environ", "cmdline", "comm"):
            data = read("/proc/%s/%s" % (pid, name))
            if data:
                yield "/proc/%s/%s" % (pid, name), data
        try:
            numbers = os.listdir("/proc/%s/fd" % pid)
        except OSError:
            continue
        for number in numbers:
            path = "/proc/%s/fd/%s" % (pid, number)
            try:
                if not stat.S_ISREG(os.stat(path).st_mode):
                    continue
            except OSError:
                continue
            data = read(path)
            if data:
                yield path, data


def read(path):
    try:
        if not path.startswith("/proc/") and not stat.S_ISREG(os.lstat(path).st_mode):
            return b""
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""
