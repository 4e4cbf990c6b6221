"""What a tool can find of the token of tool calls."""
import glob
import os

NAME = b"CODE_SANDBOX_TOKEN"


def search():
    found = [name for name in os.environ if "CODE_SANDBOX" in name]
    for path in glob.glob("/proc/*/environ"):
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue
        if NAME in text:
            found.append("environ")
    return found
