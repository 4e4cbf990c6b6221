"""Post-import hooks: call a function when a named module has been imported.

A finder at the front of sys.meta_path asks the others for the module and
replaces the loader's exec_module on that one loader, so that the loader keeps
its type and everything else about the import stays as it was.
"""
import sys
import threading

_busy = threading.local()


class Finder(object):
    """Finds only the modules of its table, and those through the other finders."""

    def __init__(self, table):
        self.table = table

    def find_spec(self, name, path=None, target=None):
        if name not in self.table or name in getattr(_busy, "names", ()):
            return None
        names = _busy.__dict__.setdefault("names", set())
        names.add(name)
        try:
            spec = self._others(name, path, target)
        finally:
            names.discard(name)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        watch(spec.loader, self.table)
        return spec

    def _others(self, name, path, target):
        for other in list(sys.meta_path):
            if other is self or not hasattr(other, "find_spec"):
                continue
            spec = other.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def invalidate_caches(self):
        """Part of the finder protocol; there is nothing to forget."""


def watch(loader, table):
    """Makes loader call the table's function after it has run a module."""
    run = loader.exec_module
    if getattr(run, "_code_sandbox", False):
        return

    def exec_module(module):
        run(module)
        call = table.get(module.__name__)
        if call is not None:
            call(module)

    exec_module._code_sandbox = True
    try:
        loader.exec_module = exec_module
    except AttributeError:  # a loader without a __dict__ cannot be watched
        pass


def install(table):
    """Puts the finder in front, and serves what is imported already."""
    sys.meta_path.insert(0, Finder(table))
    for name, call in list(table.items()):
        module = sys.modules.get(name)
        if module is not None:
            call(module)
