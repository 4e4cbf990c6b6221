"""The second way in: runs when a foreign sitecustomize came first on sys.path
and did not hand on. Python imports it only where user site directories are
enabled. Otherwise like sitecustomize."""
import os as _os
import sys as _sys

if not getattr(_sys, "_code_sandbox_started", False):
    _sys._code_sandbox_started = True
    try:
        from code_sandbox_hook import imagepath as _imagepath, start as _start
        _imagepath.restore()
        _start.install()
    except Exception as _error:
        _sys._code_sandbox_failure = _error


def _user_own():
    from importlib.machinery import PathFinder
    here = _os.path.realpath(__file__)
    for entry in list(_sys.path):
        spec = PathFinder.find_spec("usercustomize", [entry])
        if spec and spec.loader and spec.origin and _os.path.realpath(spec.origin) != here:
            return spec
    return None


_spec = _user_own()
if _spec is not None:
    from importlib.util import module_from_spec as _module_from_spec
    _module = _module_from_spec(_spec)
    _sys.modules["usercustomize"] = _module
    _spec.loader.exec_module(_module)
