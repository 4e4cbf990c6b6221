"""In audit mode: counts the calls that enforce mode would have kept out of the
agent. The counts go with the boot record, which is sent again before a later
call, at most once a second, and when the process ends.
"""
import threading
import time

PAUSE = 1.0  # seconds between two records that differ in counts only


class Audit(object):
    """What is counted and not yet told. A forked child begins anew."""

    def __init__(self):
        self._lock = threading.Lock()
        self._fresh = False
        self._told = None
        self._at_exit = False

    def count(self, target):
        """Notes one call of a tool."""
        with self._lock:
            target.audited += 1
            self._fresh = True
            first, self._at_exit = not self._at_exit, True
        if first:
            import atexit
            from . import remote
            atexit.register(remote.farewell)

    def due(self):
        """Whether there are counts to tell, and the last ones are a while ago.
        Who is told so tells them."""
        with self._lock:
            now = time.monotonic()
            if not self._fresh or self._told is not None and now - self._told < PAUSE:
                return False
            self._told, self._fresh = now, False
            return True

    def left(self):
        """Whether there are counts to tell at the end of the process."""
        with self._lock:
            return self._fresh

    def reset(self, targets):
        """Forgets what another process counted. What it had registered for its
        end was copied with it."""
        self._lock = threading.Lock()
        self._fresh, self._told = False, None
        for target in targets:
            target.audited = 0
