"""Fixtures of the framework tests."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import goservice  # noqa: E402
import sidecar as sidecars  # noqa: E402


def pytest_collection_modifyitems(config, items):
    """Leaves out what is about a part of the language that this Python has not."""
    if sys.version_info >= (3, 11):
        return
    newer = [i for i in items if i.module.__name__ == "test_core_groups"]
    config.hook.pytest_deselected(items=newer)
    items[:] = [i for i in items if i not in newer]


def make(policy=None, forge=None, **options):
    """The sidecar of this run: the product's own when it is named, but for
    answers that only a test gives."""
    if goservice.PROGRAM and forge is None:
        return goservice.Service(policy=policy)
    return sidecars.Sidecar(policy=policy, forge=forge, **options)


@pytest.fixture(autouse=True)
def readable(tmp_path):
    """Lets a copy read what a test lays here: it may be another user."""
    tmp_path.chmod(0o755)


@pytest.fixture
def sidecar():
    """A sidecar with the default policy."""
    with make() as running:
        yield running


@pytest.fixture
def started():
    """Starts sidecars with a policy of their own; ends them after the test."""
    running = []

    def start(**options):
        one = make(**options)
        one.__enter__()
        running.append(one)
        return one

    yield start
    for one in running:
        one.__exit__()


@pytest.fixture
def marker(tmp_path):
    """A file that a tool's body creates, and a check that none did."""
    return Marker(tmp_path / "marker")


class Marker:
    """Says whether a body ran, and in which process."""

    def __init__(self, path):
        self.path = str(path)

    def ran(self):
        return os.path.exists(self.path)

    def pid(self):
        with open(self.path) as file:
            return int(file.read())
