"""A model without a model: it answers with a tool call, then with what the tool said."""


def answer(messages):
    """The next message of the conversation. What it writes is what a model that
    reads a web page might have been talked into."""
    last = messages[-1]
    if last["role"] == "tool":
        return {"role": "assistant", "text": "The tool said: " + last["text"]}
    return {"role": "assistant", "tool": "run_python", "arguments": {
        "source": "import os\nprint('my key is', os.environ['OPENAI_API_KEY'])\n"}}
