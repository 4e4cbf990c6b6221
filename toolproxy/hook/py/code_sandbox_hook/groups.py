"""Exception groups on the wire: a group is told with its members, bounded.

The class exists since Python 3.11. The group of a backport is a library's own.
"""
import builtins

MOST_MEMBERS = 64
DEEPEST = 8
_BASE = getattr(builtins, "BaseExceptionGroup", ())
GROUP = getattr(builtins, "ExceptionGroup", None)


class Bounds(object):
    """What one exception may still hold of members, over all of its groups."""

    def __init__(self):
        self.members = MOST_MEMBERS

    def taken(self, found, depth):
        """As many of found as are allowed at this depth."""
        found = list(found)[:self.members] if depth < DEEPEST else []
        self.members -= len(found)
        return found


def told(error, tell, bounds, depth):
    """A group as a document, or None for another exception. tell describes one member."""
    if not isinstance(error, _BASE):
        return None
    members = bounds.taken(error.exceptions, depth)
    return {"message": str(error.message), "left_out": len(error.exceptions) - len(members),
            "exceptions": [tell(member, bounds, depth + 1) for member in members]}


def members(document, rebuild, bounds, depth):
    """The group's own text and its members, from an untrusted side; None where there is no group."""
    if GROUP is None or not isinstance(document, dict) or not isinstance(document.get("exceptions"), list):
        return None
    text, left_out = document.get("message"), document.get("left_out")
    found = [rebuild(one, bounds, depth + 1) for one in bounds.taken(document["exceptions"], depth) if isinstance(one, dict)]
    if isinstance(left_out, int) and left_out > 0:
        found.append(Exception("%.20s more exceptions of this group were left out: a call tells at most %d, %d levels deep" % (
            left_out, MOST_MEMBERS, DEEPEST)))
    return (text[:1 << 20] if isinstance(text, str) else "", found) if found else None
