"""Puts back a PYTHONPATH that ours took the place of.

A variable of a pod replaces the one of its image. What the image set was written
into a file; what only the kubelet knew is in a variable of ours.
"""
import os
import sys

MOVED = "CODE_SANDBOX_PYTHONPATH"
FOLDER = "CODE_SANDBOX_IMAGE_ENV"


def restore():
    """Lays the earlier PYTHONPATH behind the hook's own folder, for this process
    and its children. Does nothing where they see it already."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.environ.get("PYTHONPATH") != own:
        return
    earlier = os.environ.get(MOVED) or _recorded()
    if not earlier:
        return
    os.environ["PYTHONPATH"] = own + os.pathsep + earlier
    at = sys.path.index(own) + 1 if own in sys.path else 0
    sys.path[at:at] = _entries(earlier, sys.path)


def _recorded():
    folder = os.environ.get(FOLDER)
    if not folder:
        return ""
    try:
        with open(os.path.join(folder, "PYTHONPATH"), "rb") as file:
            return os.fsdecode(file.read())
    except OSError:  # the image sets none
        return ""


def _entries(text, have):
    """The folders as the site module would have them: absolute, each once. An
    empty one is the working directory, as its author has it without us."""
    entries = []
    for entry in text.split(os.pathsep):
        try:
            entry = os.path.abspath(entry)
        except OSError:  # relative to a working directory that is gone
            continue
        if entry not in have and entry not in entries:
            entries.append(entry)
    return entries
