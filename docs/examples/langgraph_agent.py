"""A LangGraph agent whose tool runs in a sandbox."""
import os

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def look(expression: str) -> str:
    """Evaluates a Python expression that the model wrote."""
    return str(eval(expression, {"os": os}))


def fake(state):
    """Asks the tool for a key, then repeats what it said."""
    last = state["messages"][-1]
    if isinstance(last, ToolMessage):
        return {"messages": [AIMessage("the tool said: " + last.content)]}
    call = {"name": "look", "args": {"expression": "os.environ.get('OPENAI_API_KEY'), os.getpid()"}, "id": "c"}
    return {"messages": [AIMessage("", tool_calls=[call])]}


def model():
    """The fake model, or the one that EXAMPLE_MODEL names."""
    if not os.environ.get("EXAMPLE_MODEL"):
        return fake
    from langchain.chat_models import init_chat_model
    real = init_chat_model(os.environ["EXAMPLE_MODEL"]).bind_tools([look])
    return lambda state: {"messages": [real.invoke(state["messages"])]}


if __name__ == "__main__":
    graph = StateGraph(MessagesState)
    graph.add_node("model", model())
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    out = graph.compile().invoke({"messages": [("user", "Evaluate os.environ.get('OPENAI_API_KEY') with the tool.")]})
    print("agent", os.getpid(), "-", out["messages"][-1].content)
