"""Whose code is it: the user's own, or a third party's."""
import fnmatch
import json
import os
import sys
import sysconfig

FOREIGN_FOLDERS = ("site-packages", "dist-packages")

_files = {}
_own_sites = {}


def is_own(filename, module=""):
    """True when the file is the user's: not of the standard library, not of an
    installed package. An installed package is the user's own when its
    direct_url.json names a folder or a version control system, or when
    CODE_SANDBOX_FIRST_PARTY names its module."""
    if module and _named_own(module):
        return True
    if not filename or filename.startswith("<"):
        return False
    known = _files.get(filename)
    if known is None:
        known = _files[filename] = _decide(filename)
    return known


def code_of(fn):
    """The code object behind a function, method or partial, or None."""
    fn = getattr(fn, "func", fn) if type(fn).__name__ == "partial" else fn
    fn = getattr(fn, "__func__", fn)
    return getattr(fn, "__code__", None)


def owns_function(fn):
    """True when fn, or a function it wraps, is written by the user."""
    for layer in layers(fn):
        code = code_of(layer)
        if code is None:
            call = getattr(type(layer), "__call__", None)
            code = getattr(call, "__code__", None)
        if code is not None and _owns_code(code.co_filename, getattr(layer, "__module__", "") or ""):
            return True
    return False


def _owns_code(filename, module):
    """Whose a function's code is. Code made from text (`python -c`, standard input,
    exec) belongs to the module that it was made in; where that tells nothing, to
    the user, so that it never runs in the agent by mistake."""
    if not filename.startswith("<"):
        return is_own(filename, module)
    if filename.startswith("<frozen"):
        return False
    made_in = getattr(sys.modules.get(module), "__file__", None)
    unknown = not isinstance(made_in, str) or made_in.startswith("<")  # standard input is "<stdin>"
    return _named_own(module) or unknown or is_own(made_in, module)


def layers(fn):
    """fn and what it wraps, outermost first, bounded."""
    found = []
    while fn is not None and len(found) < 32:
        found.append(fn)
        if type(fn).__name__ == "partial" and hasattr(fn, "func"):
            fn = fn.func
        else:
            fn = getattr(fn, "__wrapped__", None)
    return found


def owns_class(cls):
    """True when the class was defined in the user's code."""
    made_in = getattr(sys.modules.get(cls.__module__), "__file__", None) or ""
    if cls.__module__ in ("__main__", "__mp_main__") and (not made_in or made_in.startswith("<")):
        return True  # a program that is in no file
    return is_own(made_in, cls.__module__)


def own_modules(known=frozenset()):
    """The imported modules of the user, less those of known names: pairs of
    name and module."""
    named = _named()  # once: a program has a thousand modules, and each call asks
    for name, module in list(sys.modules.items()):
        if name in known or name.startswith("code_sandbox_hook"):
            continue
        filename = getattr(module, "__file__", None)
        if not isinstance(filename, str):
            continue
        if is_own(filename) or _named_own(name, named):
            yield name, module


def _named():
    """The patterns of modules that the settings call the user's own."""
    setting = os.environ.get("CODE_SANDBOX_FIRST_PARTY", "")
    return [item.strip() for item in setting.split(",") if item.strip()]


def _named_own(module, patterns=None):
    patterns = _named() if patterns is None else patterns
    top = module.split(".")[0]
    return any(fnmatch.fnmatchcase(module, p) or fnmatch.fnmatchcase(top, p) for p in patterns)


def _decide(filename):
    path = os.path.realpath(filename)
    parts = path.split(os.sep)
    for folder in FOREIGN_FOLDERS:
        if folder in parts:
            last = len(parts) - 1 - parts[::-1].index(folder)
            return _installed_from_folder(os.sep.join(parts[:last + 1]), path)
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return not any(_inside(path, root) for root in _standard_folders() + [here])


def _inside(path, folder):
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _standard_folders():
    names = ("stdlib", "platstdlib")
    return [os.path.realpath(p) for p in (sysconfig.get_paths().get(n) for n in names) if p]


def _installed_from_folder(site, path):
    """True when path belongs to a distribution that pip took from the user."""
    owned = _own_sites.get(site)
    if owned is None:
        owned = _own_sites[site] = _own_files(site)
    return path in owned


def _own_files(site):
    files = set()
    try:
        names = [n for n in os.listdir(site) if n.endswith(".dist-info")]
    except OSError:
        return files
    for name in names:
        info = os.path.join(site, name)
        if not _own_distribution(os.path.join(info, "direct_url.json")):
            continue
        try:
            with open(os.path.join(info, "RECORD"), encoding="utf-8") as record:
                lines = record.read().splitlines()
        except (OSError, UnicodeDecodeError):
            continue
        for line in lines:
            files.add(os.path.realpath(os.path.join(site, line.split(",")[0].strip('"'))))
    return files


def _own_distribution(path):
    try:
        with open(path, encoding="utf-8") as file:
            direct = json.load(file)
    except (OSError, ValueError):
        return False
    return isinstance(direct, dict) and ("vcs_info" in direct or str(direct.get("url", "")).startswith("file:"))
