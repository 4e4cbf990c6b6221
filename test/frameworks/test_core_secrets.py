"""Which values of variables look like secrets."""
import importlib.util
import json
import os

import pytest

HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "toolproxy", "hook")


def env():
    """The hook's module, without the hook."""
    spec = importlib.util.spec_from_file_location("hook_env", os.path.join(HOOK, "py", "code_sandbox_hook", "env.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def values(kind):
    with open(os.path.join(HOOK, "testdata", "values.json"), encoding="utf-8") as f:
        return json.load(f)[kind]


@pytest.mark.parametrize("value", values("secret"))
def test_secrets_do_not_cross(value):
    assert env().crossing({"LOG_LEVEL": value, "MINE": value}, ["MINE"])[0] == {}
    # by name, as a secret
    assert env().crossing({"MINE": value}, ["!MINE"])[0] == {"MINE": value}


@pytest.mark.parametrize("value", values("harmless"))
def test_harmless_values_cross(value):
    assert env().crossing({"LOG_LEVEL": value, "MINE": value}, ["MINE"])[0] == {"LOG_LEVEL": value, "MINE": value}


def test_paths_may_have_hashes():
    path = "/nix/store/0c9qv3w1zr7xt5nbpqy8sdf2ghj4kmn6-python3-3.12.7/bin"
    assert env().crossing({"PATH": path, "SSL_CERT_FILE": path, "LOG_LEVEL": path})[0] == {"PATH": path, "SSL_CERT_FILE": path}
    assert env().crossing({"PATH": path + ":sk-proj-0123456789abcdef"})[0] == {}


def test_hashes_of_an_image_are_held_back_unless_named_as_secrets():
    image = {"GPG_KEY": "7169605F62C751356D054A26A821E680E5FA6305", "PYTHON_VERSION": "3.12.7"}
    assert env().crossing(image)[0] == {}
    assert env().crossing(image, ["GPG_KEY", "PYTHON_*"])[0] == {"PYTHON_VERSION": "3.12.7"}
    assert env().crossing(image, ["!GPG_KEY"])[0] == {"GPG_KEY": image["GPG_KEY"]}
