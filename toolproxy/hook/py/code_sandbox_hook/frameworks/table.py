"""Which module of which framework is patched by what.

A row names the module to wait for, the framework's name, our module that
patches it, and the doors: the public names through which tools are made. When
the module has another shape than we know, the doors are closed instead.
"""
import importlib
import sys

ROWS = (
    ("langchain_core.tools.base", "langchain", "langchain", ("BaseTool",)),
    ("langchain_core.tools.structured", "langchain", "langchain", ("StructuredTool",)),
    ("langchain_core.tools.simple", "langchain", "langchain", ("Tool",)),
    ("agents.tool", "openai-agents", "openai_agents", ("function_tool",)),
    ("pydantic_ai.tools", "pydantic-ai", "pydantic_ai", ("Tool",)),
    ("mcp.server.mcpserver.tools.base", "mcp", "mcp", ("Tool",)),
    ("mcp.server.fastmcp.tools.base", "mcp", "mcp", ("Tool",)),
    ("fastmcp.tools.function_tool", "fastmcp", "mcp", ("FunctionTool",)),
    ("crewai.tools.base_tool", "crewai", "crewai", ("BaseTool", "Tool")),
    ("crewai.tools.structured_tool", "crewai", "crewai", ("CrewStructuredTool",)),
    ("llama_index.core.tools.function_tool", "llama-index", "llama_index", ("FunctionTool",)),
    ("google.adk.tools.function_tool", "google-adk", "google_adk", ("FunctionTool",)),
    ("anthropic.lib.tools._beta_functions", "anthropic", "anthropic", ("BaseFunctionTool",)),
    ("strands.tools.decorator", "strands", "strands", ("DecoratedFunctionTool",)),
    ("smolagents.tools", "smolagents", "smolagents", ("Tool", "tool")),
    # Third-party tools that execute the model's text. They are not the user's
    # own functions, but what they run is the model's.
    ("langchain_experimental.tools.python.tool", "langchain", "text_tools", ("PythonREPLTool", "PythonAstREPLTool")),
    ("langchain_experimental.utilities.python", "langchain", "text_tools", ("PythonREPL",)),
    ("langchain_community.tools.shell.tool", "langchain", "text_tools", ("ShellTool",)),
    ("smolagents.default_tools", "smolagents", "text_tools", ("PythonInterpreterTool",)),
    ("smolagents.local_python_executor", "smolagents", "text_tools", ("LocalPythonExecutor",)),
    ("crewai_tools.tools.code_interpreter_tool.code_interpreter_tool", "crewai", "text_tools",
     ("CodeInterpreterTool",)),
    ("llama_index.tools.code_interpreter.base", "llama-index", "text_tools", ("CodeInterpreterToolSpec",)),
    ("google.adk.code_executors.unsafe_local_code_executor", "google-adk", "text_tools",
     ("UnsafeLocalCodeExecutor",)),
)


def hooks(tool_functions):
    """The table for the finder: module name -> function of the module."""
    table = {}
    for module, framework, patch, doors in ROWS:
        table[module] = _patcher(framework, patch, doors)
    for name in sorted({item.partition(":")[0].strip() for item in tool_functions.split(",") if ":" in item}):
        if name and name not in table:
            table[name] = _own_functions
    return table


def _patcher(framework, patch, doors):
    def call(module):
        from .. import patching
        patching.apply(module, framework, importlib.import_module(__package__ + "." + patch).patch, doors)
    return call


def _own_functions(module):
    from . import tool_functions
    tool_functions.patch(module)


def loaded():
    """The names of the frameworks whose modules are imported."""
    return sorted({row[1] for row in ROWS if row[0] in sys.modules})
