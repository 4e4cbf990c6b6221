"""What happens when the interpreter starts: read the settings, watch imports.

Only os, sys and two small modules of ours are imported here. The rest comes
with the first framework.
"""
import os
import sys

from . import finder

AGENT = "agent"
COPY = "copy"


def side():
    """Which side this process is: AGENT or COPY."""
    return COPY if getattr(sys, "_code_sandbox_copy", False) else AGENT


def install():
    """Watches for the frameworks. Does nothing when tools are switched off."""
    if side() == AGENT and os.environ.get("CODE_SANDBOX_TOOLS", "").strip().lower() == "off":
        return
    sys._code_sandbox_cwd = _cwd()
    from .frameworks import table
    finder.install(table.hooks(os.environ.get("CODE_SANDBOX_TOOL_FUNCTIONS", "")))


def _cwd():
    try:
        return os.getcwd()
    except OSError:
        return os.sep
