"""Hand-written dispatch: run with CODE_SANDBOX_TOOL_FUNCTIONS=handwritten_tools:*"""
import os

import handwritten_tools

if __name__ == "__main__":
    name, arguments = "look", {"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"}
    print("agent", os.getpid(), "- the tool said:", getattr(handwritten_tools, name)(**arguments))
