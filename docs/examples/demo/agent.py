"""A small agent with a hand-written loop: it asks its model, and calls the tools
that the model names."""
import model
import tools


def main():
    messages = [{"role": "user", "text": "What does this page say?"}]
    while True:
        message = model.answer(messages)
        if "tool" not in message:
            print(message["text"])
            return
        function = getattr(tools, message["tool"])
        messages.append({"role": "tool", "text": str(function(**message["arguments"]))})


if __name__ == "__main__":
    main()
