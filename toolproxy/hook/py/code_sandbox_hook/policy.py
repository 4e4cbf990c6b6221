"""The policy of this process: first from the environment, then from the hello
answer, which stands over it."""
import fnmatch
import os

ENFORCE, AUDIT, OFF = "enforce", "audit", "off"
REFUSE, INLINE = "refuse", "inline"

DEFAULT_LIMITS = {"args_bytes": 4 << 20, "result_bytes": 8 << 20, "depth": 64, "nodes": 200000,
                  "max_seconds": 300.0}


class Policy(object):
    """What may run where. Unknown words count as the strictest one."""

    def __init__(self, values):
        mode = str(values.get("mode", ENFORCE)).strip().lower()
        self.mode = mode if mode in (ENFORCE, AUDIT, OFF) else ENFORCE
        context = str(values.get("context", REFUSE)).strip().lower()
        self.context = context if context in (REFUSE, INLINE) else REFUSE
        self.include = _words(values.get("include"))
        self.exclude = _words(values.get("exclude"))
        self.env_allow = _words(values.get("env_allow"))
        self.allow_results = _words(values.get("allow_results"))
        self.timeout = _positive(values.get("timeout_seconds"))
        self.limits = dict(DEFAULT_LIMITS)
        for name, value in (values.get("limits") or {}).items():
            if name in self.limits and _positive(value):
                self.limits[name] = type(self.limits[name])(value)

    def excluded(self, name, module, qualname):
        """True when the settings keep this tool in the agent."""
        names = (name, module + ":" + qualname)
        if self.exclude and _any(names, self.exclude):
            return True
        return bool(self.include) and not _any(names, self.include)


def _any(names, patterns):
    return any(fnmatch.fnmatchcase(n, p) for n in names for p in patterns)


def _words(value):
    if value is None:
        return []
    if isinstance(value, str):
        value = value.split(",")
    return [str(item).strip() for item in value if str(item).strip()]


def _positive(value):
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 < number < 1e9 else None


SETTINGS = {
    "mode": "CODE_SANDBOX_TOOLS", "include": "CODE_SANDBOX_TOOLS_INCLUDE", "exclude": "CODE_SANDBOX_TOOLS_EXCLUDE",
    "context": "CODE_SANDBOX_TOOLS_CONTEXT", "env_allow": "CODE_SANDBOX_TOOL_ENV_ALLOW",
    "allow_results": "CODE_SANDBOX_ALLOW_RESULTS", "timeout_seconds": "CODE_SANDBOX_TOOL_TIMEOUT",
}


def from_environment(environment=None):
    """The policy that the launcher's variables say, as the dictionary of Policy.
    An empty word says nothing: the default holds."""
    environment = os.environ if environment is None else environment
    return {key: environment[name] for key, name in SETTINGS.items() if environment.get(name, "").strip()}


def merged(first, answer):
    """The environment's words with the hello answer's over them."""
    both = dict(first)
    for key, value in (answer or {}).items():
        if value is not None:
            both[key] = value
    return Policy(both)
