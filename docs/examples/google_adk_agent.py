"""A Google ADK agent whose tool runs in a sandbox."""
import asyncio
import os

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types


def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


class Fake(BaseLlm):
    """Asks the tool for a key, then repeats what it said."""

    async def generate_content_async(self, llm_request, stream=False):
        said = llm_request.contents[-1].parts[-1].function_response
        if said is not None:
            part = types.Part(text="the tool said: " + str(said.response))
        else:
            expression = "os.environ.get('OPENAI_API_KEY'), os.getpid()"
            part = types.Part(function_call=types.FunctionCall(id="c", name="look", args={"expression": expression}))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def main():
    runner = InMemoryRunner(agent=Agent(name="demo", model=Fake(model="fake"), tools=[look]), app_name="demo")
    session = await runner.session_service.create_session(app_name="demo", user_id="u")
    text = "Evaluate os.environ.get('OPENAI_API_KEY') with the tool."
    answer = ""
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=types.Content(
            role="user", parts=[types.Part(text=text)])):
        answer = (event.content.parts[0].text if event.content and event.content.parts else None) or answer
    print("agent", os.getpid(), "-", answer)


if __name__ == "__main__":
    asyncio.run(main())
