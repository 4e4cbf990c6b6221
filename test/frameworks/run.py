#!/usr/bin/env python3
"""Runs the framework tests: makes each environment with pip, runs pytest in it,
prints the closing lines, and can write the table of what was tested.

    python test/frameworks/run.py                      everything
    python test/frameworks/run.py core mcp             some of it
    python test/frameworks/run.py --pythons 3.8,3.13   the hook's own tests on these
    python test/frameworks/run.py --table docs/tool-calls.md

Environments are kept in CODE_SANDBOX_TEST_CACHE, or the user's cache folder.
"""
import argparse
import concurrent.futures
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import world

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Suite -> its test files, the distribution it is about, the name in the table,
# its example and its agent.
SUITES = {
    "openai_agents": ("test_openai_agents.py", "openai-agents", "OpenAI Agents SDK", "openai_agents_agent openai_agent"),
    "langchain": ("test_langchain.py", "langchain-core langgraph", "LangChain, LangGraph", "langgraph_agent langchain_agent"),
    "pydantic_ai": ("test_pydantic_ai.py", "pydantic-ai-slim", "Pydantic AI", "pydantic_ai_agent pydantic_agent"),
    "mcp": ("test_mcp.py test_servers.py", "mcp", "MCP Python SDK", "mcp_server_agent mcp_server"),
    "fastmcp": ("test_mcp.py", "fastmcp", "FastMCP", "fastmcp_agent mcp_server"),
    "crewai": ("test_crewai.py", "crewai", "CrewAI", "crewai_agent crew_agent"),
    "llama_index": ("test_llama_index.py", "llama-index-core", "LlamaIndex", "llama_index_agent llama_agent"),
    "google_adk": ("test_google_adk.py", "google-adk", "Google ADK", "google_adk_agent adk_agent"),
    "anthropic": ("test_anthropic.py", "anthropic", "Anthropic SDK tool runner", "anthropic_agent anthropic_agent"),
    "strands": ("test_strands.py", "strands-agents", "Strands Agents", "strands_agent strands_agent"),
    "smolagents": ("test_smolagents.py", "smolagents", "smolagents", "smolagents_agent smol_agent"),
}
CORE = "core"
# With a version manager each of these can be had, and a missing one is a failure.
MANAGED = os.path.expanduser("~/.pyenv/versions")
THIS = "%d.%d" % sys.version_info[:2]
REQUIRED = ("3.8,3.9,3.10,3.11,3.12,3.13" if os.path.isdir(MANAGED) else THIS) + ",3.14"
# One that is in no version manager yet comes out of a Go module.
CARRIED = "3.14"
PIP = "25.3"  # for it: it comes without
FRAMEWORK_PYTHON = "3.12" if os.path.isdir(MANAGED) else THIS


def main():
    options = arguments()
    chosen = options.suites or [CORE] + list(SUITES)
    runs = [one for name in chosen for one in plan(name, options)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        ended = list(pool.map(lambda one: run(*one, options), runs))
    failed = any(code != 0 for code, _ in ended)
    lines = ["%-22s %s" % (one[0], last) for one, (_, last) in zip(runs, ended)]
    print("\n".join(["", "=== closing lines ==="] + lines))
    if options.table and not failed:
        write_table(options)
    return 1 if failed else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", choices=[[], CORE] + list(SUITES), metavar="SUITE",
                        help="core or a framework: " + ", ".join(SUITES))
    parser.add_argument("--pythons", default=os.environ.get("CODE_SANDBOX_TEST_PYTHONS", REQUIRED),
                        help="versions that the hook's own tests need; a missing one is a failure")
    parser.add_argument("--framework-python", default=FRAMEWORK_PYTHON, help="the version for the frameworks")
    parser.add_argument("--cache", default=os.environ.get("CODE_SANDBOX_TEST_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "code-sandbox-frameworks"))
    parser.add_argument("--table", metavar="PAGE", help="write the table of versions between the marks of this page")
    parser.add_argument("--service", metavar="PROGRAM", default=os.environ.get("CODE_SANDBOX_TEST_SERVICE", ""),
                        help="run frameworks against this code-sandbox, not against the small sidecar of the tests")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="suites that run beside each other")
    parser.add_argument("-k", dest="keyword", help="handed to pytest")
    return parser.parse_args()


def plan(name, options):
    """The runs of one suite: label, python, requirements file, test files."""
    if name == CORE:
        files = sorted(os.path.basename(p) for p in glob.glob(os.path.join(HERE, "test_core*.py")))
        return [("core-" + v, v, "core.txt", files) for v in options.pythons.split(",") if v]
    return [(name, options.framework_python, name + ".txt", SUITES[name][0].split() + ["test_examples.py"])]


def run(label, version, requirements, files, options):
    """Runs pytest once. Returns its exit code and closing line."""
    begin = time.monotonic()
    try:
        python = environment(label, version, os.path.join(HERE, "requirements", requirements), options.cache)
        compiled(label, python)
    except (LookupError, subprocess.SubprocessError) as error:
        return 1, "FAILED: %s" % error
    service = os.path.abspath(options.service) if options.service and not label.startswith(CORE) else ""
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"] + files
    if options.keyword:
        command += ["-k", options.keyword]
    done = subprocess.run(command, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                          env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", CODE_SANDBOX_TEST_SERVICE=service))
    print("--- %s (%s)\n%s" % (label, python, done.stdout), flush=True)
    last = (done.stdout.strip().splitlines() or ["no output"])[-1]
    return done.returncode, "%s (%.0f s with the environment)" % (last, time.monotonic() - begin)


def environment(label, version, requirements, cache):
    """The python of an environment with these requirements, made when there is none."""
    with open(requirements, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    folder = os.path.join(cache, "%s-%s-%s" % (label.split("-")[0], version, digest))
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(os.path.join(folder, "ready")):
        return python
    shutil.rmtree(folder, ignore_errors=True)
    base = interpreter(version, cache)
    subprocess.run([base, "-m", "venv"] + (["--without-pip"] if version == CARRIED else []) + [folder], check=True)
    pip = [python, pip_wheel(cache)] if version == CARRIED else [python, "-m", "pip"]
    subprocess.run(pip + ["install", "-q", "--disable-pip-version-check", "--no-compile", "-r", requirements], check=True)
    open(os.path.join(folder, "ready"), "w").close()
    return python


def compiled(name, python):
    """Lets the environment of a framework keep what its programs import as bytecode,
    once. The tests write none, and without it each of their processes, and each
    copy, would compile thousands of files anew: CrewAI takes a minute for that."""
    done = os.path.join(os.path.dirname(os.path.dirname(python)), "compiled")
    if name not in SUITES or os.path.exists(done):
        return
    example, agent = SUITES[name][3].split()
    with tempfile.TemporaryDirectory() as home:
        # The agent gets no arguments and ends after its imports; the tests tell of what is wrong.
        for program in (os.path.join(ROOT, "docs", "examples", example + ".py"), agent + ".py"):
            world.run(program, python=python, cwd=home, HOME=home, PYTHONDONTWRITEBYTECODE="", timeout=1800)
    open(done, "w").close()


def pip_wheel(cache):
    """A pip that runs out of its wheel, for an interpreter that came without."""
    found = glob.glob(os.path.join(cache, "pip", "pip-%s-*.whl" % PIP))
    if not found:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([os.path.join(folder, "bin", "python"), "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                            "-d", os.path.join(cache, "pip"), "pip==" + PIP], check=True)
        found = glob.glob(os.path.join(cache, "pip", "pip-%s-*.whl" % PIP))
    return os.path.join(found[0], "pip")


def interpreter(version, cache):
    """An interpreter of this version, from pyenv, PATH or a Go module. A missing
    one is an error."""
    candidates = sorted(glob.glob("%s/%s*/bin/python" % (MANAGED, version)))
    candidates += [found for found in [shutil.which("python" + version)] if found]
    for candidate in candidates:
        done = subprocess.run([candidate, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
        if done.stdout.strip() == ".".join(version.split(".")[:2]):
            return candidate
    if version == CARRIED:
        return carried(cache)
    raise LookupError("there is no Python %s with venv on this machine" % version)


def carried(cache):
    """The interpreter of the Go module in tools/cpython, laid into the cache."""
    folder = os.path.join(cache, "cpython-" + CARRIED)
    python = os.path.join(folder, "bin", "python" + CARRIED)
    if not os.path.exists(os.path.join(folder, "ready")):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(cache, exist_ok=True)
        subprocess.run(["go", "run", ".", folder], cwd=os.path.join(HERE, "tools", "cpython"), check=True)
        open(os.path.join(folder, "ready"), "w").close()
    return python


def table(options):
    """The rows of the table in the documentation."""
    rows = ["| framework | version tested | tests |", "|---|---|---|"]
    for name, (file, distributions, title, _) in SUITES.items():
        pins = read_pins(os.path.join(HERE, "requirements", name + ".txt"))
        count = sum(tests_in(part) for part in file.split())
        versions = ", ".join("%s %s" % (d, pins.get(d, "?")) for d in distributions.split())
        rows.append("| %s | %s | %d |" % (title, versions, count))
    rows.append("| the hook itself, without a framework | Python %s | |" % options.pythons.replace(",", ", "))
    return "\n".join(rows)


def tests_in(file):
    with open(os.path.join(HERE, file), encoding="utf-8") as source:
        return len(re.findall(r"^def test_", source.read(), re.M))


def read_pins(path):
    with open(path, encoding="utf-8") as file:
        pairs = [line.strip().split("==") for line in file if "==" in line]
    return {name.lower(): version for name, version in pairs}


def write_table(options):
    """Replaces what stands between the two marks of the page."""
    begin, end = "<!-- versions tested: begin -->", "<!-- versions tested: end -->"
    with open(options.table, encoding="utf-8") as file:
        text = file.read()
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    with open(options.table, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n" + table(options) + "\n" + end + after)


if __name__ == "__main__":
    sys.exit(main())
