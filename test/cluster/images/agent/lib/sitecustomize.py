"""The agent's own, which Python runs at start."""
import sys

sys.user_ran = getattr(sys, "user_ran", 0) + 1
