"""Runs an agent's own tool functions in one-use sandboxes.

The same package works on both sides. In the agent it hands each framework a
proxy of the function; in the copy it hands the function itself and remembers
where it is. Nothing here is imported before a framework is.
"""

VERSION = "1"
