"""Plants what only a running process has, then lets its tool search."""
import json
import os
import secrets
import sys
import tempfile

import tools

if __name__ == "__main__":
    tools.KEY = "PLANT-global-" + secrets.token_hex(8)
    with tempfile.TemporaryFile() as file:  # no name leads to it
        file.write(b"PLANT-descriptor-" + secrets.token_hex(8).encode())
        file.flush()
        print("FOUND " + json.dumps(tools.search(json.loads(sys.argv[1]))))
