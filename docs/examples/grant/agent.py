"""Calls a tool that fetches the address given: run it with --tool-grant."""
import sys

import tools

if __name__ == "__main__":
    try:
        print("The tool said:", tools.fetch(sys.argv[1]))
    except OSError as error:
        print("The tool failed:", error)
