"""Hand-written dispatch: the names of CODE_SANDBOX_TOOL_FUNCTIONS are rebound
to proxies once their module has been imported."""
import fnmatch
import os
import types

from .. import owner, proxy

NAME = "tool-functions"


def patch(module):
    """Rebinds the module's matching functions. "app.tools:*" takes all that the
    module itself defines and that are not private."""
    for name in _wanted(module):
        setattr(module, name, proxy.guard(vars(module)[name], NAME))


def _wanted(module):
    setting = os.environ.get("CODE_SANDBOX_TOOL_FUNCTIONS", "")
    pairs = [item.strip().partition(":") for item in setting.split(",")]
    patterns = [pattern for name, _, pattern in pairs if name == module.__name__ and pattern]
    for name, value in sorted(vars(module).items()):
        if not isinstance(value, types.FunctionType) or value.__module__ != module.__name__:
            continue
        if not owner.owns_function(value):
            continue
        if any(name == p or (not name.startswith("_") and fnmatch.fnmatchcase(name, p)) for p in patterns):
            yield name
