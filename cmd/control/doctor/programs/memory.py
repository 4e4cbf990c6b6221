# Holds as many bytes as the argument says, all of them touched.
import sys

held = []
for _ in range(int(sys.argv[1]) >> 20):
    held.append(b"x" * (1 << 20))
print("{}")
