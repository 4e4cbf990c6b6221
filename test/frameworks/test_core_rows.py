"""Each row of the cases, each reason of a refusal and each point of what a body
may rely on has a test by its name, and each test of a refusal looks whether the
body ran. This reads the tests and runs none."""
import ast
import glob
import os
import re
import subprocess
import sys

import world

ROOT = os.path.normpath(os.path.join(world.HERE, "..", ".."))
ROWS = range(1, 25)  # T1 to T24
# Reason of the page -> a test in Go, of what needs the real service's own parts.
IN_GO = {
    "no_egress": "TestEgressFailsClosed", "folder_private": "TestViewOfPrivateFolders", "interpreter_place": "TestViewOfPrivateFolders",
    "folder_too_large": "TestFindHiddenIsBounded", "image_volume": "TestCopyCannotBeCovered",
}
# Begin of a point on the page -> begin of its tests' names.
POINTS = {
    "Its module's globals as the import made them": "test_rely_globals",
    "Nothing it changes in memory is seen": "test_rely_memory",
    "Environment variables by name": "test_rely_variables",
    "What it prints appears": "test_rely_prints",
    "`await`, threads, subprocesses and temporary files": "test_rely_await",
    "No network but what it is granted": "TestRelyNetwork",
    "The files of its program, but not what may hold a credential": "TestViewOfHiddenFoldersOfAHome",
    "Some files of the program are not there": "TestCopyHides",
}
WITHOUT_MARKER = {"test_refused_calls_ran_nowhere": "each of its bodies leaves a mark of its own"}


def names():
    """Every test here with its parameters, and every test in Go."""
    done = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"], cwd=world.HERE,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    assert done.returncode == 0, done.stdout
    found = [line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line]
    for folder in ("test/agents", "pool/local", "pool/kube", "pool/runner/server", "toolproxy"):
        for path in glob.glob(os.path.join(ROOT, folder, "*_test.go")):
            with open(path, encoding="utf-8") as file:
                found += re.findall(r"^func (Test\w+)\(", file.read(), re.M)
    return found


def section(heading):
    """The text of one section of the documentation."""
    with open(os.path.join(ROOT, "docs", "tool-calls.md"), encoding="utf-8") as file:
        return file.read().partition("\n## " + heading + "\n")[2].partition("\n## ")[0]


def test_every_row_has_a_test_by_name():
    of = {int(n) for name in names() for n in re.findall(r"^(?:test_t|TestT)(\d+)(?=[_A-Z])", name)}
    assert of == set(ROWS)


def test_every_reason_on_the_page_has_a_refused_test():
    refused = [name for name in names() if "refused" in name]
    rows = re.findall(r"^\| (`.*?`) \|", section("What is refused, and what to change"), re.M)
    reasons = re.findall(r"`(\w+)`", " ".join(rows))
    missing = [r for r in reasons if not any(r in name for name in refused) and IN_GO.get(r) not in names()]
    assert len(reasons) > 10 and not missing


def test_every_refused_test_looks_at_the_marker():
    found = []
    for path in glob.glob(os.path.join(world.HERE, "test_*.py")):
        with open(path, encoding="utf-8") as file:
            found += [(f.name, ast.dump(f)) for f in ast.parse(file.read()).body if isinstance(f, ast.FunctionDef)]
    looks = "attr='ran'"
    without = {name for name, text in found if name.startswith("test_") and "_refused" in name
               and "refused_test" not in name and looks not in text}
    assert without == set(WITHOUT_MARKER)


def test_every_point_of_what_a_body_may_rely_on_has_a_test():
    points = [line[2:] for line in section("What a tool body may rely on").splitlines() if line.startswith("- ")]
    assert len(points) == len(POINTS)
    for point in points:
        begins = [name for begin, name in POINTS.items() if point.startswith(begin)]
        assert begins and any(name.startswith(begins[0]) for name in names()), point
