"""The environment of the agent: names and shapes cross, values do not.

A value crosses when its name is on the allow-list below or named by
CODE_SANDBOX_TOOL_ENV_ALLOW, and it does not look like a secret. A name with a
leading "!" in that setting crosses even if it does.
"""
import fnmatch
import json
import math
import re

ALLOWED = (
    "PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "TERM", "COLUMNS", "LINES", "VIRTUAL_ENV", "CONDA_PREFIX",
    "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONFAULTHANDLER",
    "LD_LIBRARY_PATH", "NODE_ENV", "OMP_*", "MKL_*", "OPENBLAS_NUM_THREADS", "NUMEXPR_*",
    "LOG_LEVEL", "LOGLEVEL", "ENVIRONMENT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
)
OURS = "CODE_SANDBOX_"
MOST_NAMES = 2000
LONGEST_VALUE = 32768

_SECRET = re.compile(
    r"-----BEGIN|^eyJ[\w-]+\.[\w-]+\.|^(sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abps]|hf|AKIA|ASIA|AIza|ya29)"
    r"[-_.]?[A-Za-z0-9_-]{10,}|://[^/\s:@]*:[^/\s@]+@")
_URL = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*)://")
_BOOLEANS = ("true", "false", "yes", "no", "on", "off")


def shape(value):
    """What kind of text a value is: empty, url, int, float, bool, json, path or opaque."""
    text = value.strip()
    if not text:
        return {"shape": "empty"}
    url = _URL.match(text)
    if url:
        return {"shape": "url", "scheme": url.group(1)}
    if re.match(r"^[+-]?\d{1,18}$", text):
        return {"shape": "int"}
    if re.match(r"^[+-]?\d{1,15}\.\d{1,15}$", text):
        return {"shape": "float"}
    if text.lower() in _BOOLEANS:
        return {"shape": "bool", "word": "false" if text.lower() in ("true", "false") else "no"}
    if text[0] in "{[":
        try:
            return {"shape": "json", "array": isinstance(json.loads(text), list)}
        except (ValueError, RecursionError):
            return {"shape": "opaque"}
    if text.startswith(("/", "./", "~/")):
        return {"shape": "path"}
    return {"shape": "opaque"}


def looks_secret(value):
    """True for what is shaped like a key, a token or a URL with a password."""
    if _SECRET.search(value):
        return True
    longest = max(re.split(r"[\s:;,/=]+", value), key=len)
    return len(longest) >= 24 and _entropy(longest) > 4.0 and not longest.isalpha()


def _entropy(text):
    counts = [text.count(c) / len(text) for c in set(text)]
    return -sum(p * math.log(p, 2) for p in counts)


def crossing(environment, allow=()):
    """Splits the environment: values that may cross, and the shapes of the rest."""
    values, names = {}, {}
    forced = [p[1:] for p in allow if p.startswith("!")]
    wanted = [p.lstrip("!") for p in allow]
    for name, value in sorted(environment.items())[:MOST_NAMES]:
        if name.startswith(OURS) or name == "PYTHONPATH":
            continue
        permitted = _matches(name, ALLOWED) or _matches(name, wanted)
        if permitted and (_matches(name, forced) or _safe(name, value)):
            values[name] = value[:LONGEST_VALUE]
        else:
            names[name] = shape(value)
    return values, names


def _safe(name, value):
    if name in ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"):
        return not _SECRET.search(value)
    return not looks_secret(value)


def _matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)
