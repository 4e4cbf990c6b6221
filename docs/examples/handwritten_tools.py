"""The tools of handwritten_agent.py."""
import os


def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))
