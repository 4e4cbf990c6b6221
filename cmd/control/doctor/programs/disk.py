# Writes a file of as many bytes as the argument says.
import json, sys

written, refused = 0, ""
try:
    with open("big", "wb", buffering=0) as f:
        while written < int(sys.argv[1]):
            written += f.write(b"x" * (1 << 20))
except OSError as error:
    refused = str(error)
print(json.dumps({"written": written, "refused": refused}))
