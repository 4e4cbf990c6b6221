"""The agent's tools: plain functions."""
import contextlib
import io


def run_python(source: str) -> str:
    """Runs Python that the model wrote, and returns what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(source, {})
    return out.getvalue().strip()


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b
