"""The program of a copy: python runcopy.py --request-fd N --result-fd M.

Started with an environment made from nothing; the boot record brings the rest.
"""
import os
import sys

sys._code_sandbox_copy = True
sys._code_sandbox_started = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from code_sandbox_hook.copy import serve  # noqa: E402  (the path comes first)

serve.run()
