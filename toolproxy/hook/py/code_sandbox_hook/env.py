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

# What keys and tokens look like: pool/runner/server/secret.go has the same, and
# testdata/values.json says what both must make of values.
_SECRET = re.compile(
    r"-----BEGIN|(?:^|[^\w-])eyJ[\w-]+\.[\w-]+\.|://[^/\s:@]*:[^/\s@]+@"
    r"|^(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abps]|hf|AKIA|ASIA|AIza|ya29)[-_.]?[A-Za-z0-9_-]{10,}"
    r"|(?:^|[^A-Za-z0-9])(?:sk-|[spr]k_|gh[oprsu]_|github_pat_|gl[a-z]{2,4}-|xox[a-z]-|xapp-|hf_|npm_|pypi-|AIza|ya29\.|SG\.|shp[a-z]{2}_"
    r"|whsec_|lin_api_|nvapi-|gsk_|r8_|tvly-|pcsk_|pplx-|xai-|hv[sbr]\.|glsa_|dckr_pat_|dop_v1_|ATATT|sntry[su]_|AGE-SECRET-KEY-1)"
    r"[A-Za-z0-9_./+=-]{10,}"
    r"|(?:^|[^A-Za-z0-9])(?:A[GIKNRS][A-Z]A[A-Z0-9]{12,}|dapi[0-9a-f]{32})"
    r"|(?i:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key)\s*[=:]\s*[^\s;,&]{4,}"
    r"|(?i:bearer|basic)\s+[A-Za-z0-9+/=._-]{16,}", re.ASCII)
_WORDS = re.compile(r"[^A-Za-z0-9_+/.~-]+")
_HEX = re.compile(r"^[0-9a-fA-F]{32,}$")
# Names whose values are paths: folders may be named by hashes.
_PATHS = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
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
    return bool(_SECRET.search(value)) or any(_random(word) for word in _words(value))


def _words(value):
    """The words of a value. A path has one for each folder, and so has a URL."""
    for word in _WORDS.split(value):
        if "/" in word and (word[0] in "/.~" or "//" in value):
            for part in word.split("/"):
                yield part
        else:
            yield word


def _random(word):
    """Whether nobody would write a word by hand: long, and of many letters and digits."""
    if _HEX.match(word) and not word.isdigit():
        return True
    mixed = any("A" <= c <= "Z" for c in word) and any("a" <= c <= "z" for c in word) and any("0" <= c <= "9" for c in word)
    if mixed and len(word) >= 16:
        return _entropy(word) > 3.5
    return len(word) >= 24 and "/" not in word and _entropy(word) > 4.0 and not word.isalpha()


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
    if name in _PATHS:
        return not _SECRET.search(value)
    return not looks_secret(value)


def _matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, p) for p in patterns)
