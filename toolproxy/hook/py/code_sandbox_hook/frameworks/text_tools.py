"""Third-party tools that execute text which the model wrote.

Library code stays in the agent as a rule. These are the exception: a Python
interpreter in the agent's process would show the model the agent's keys.
"""
from .. import methods, patching

# Class name -> methods that execute the text.
METHODS = {
    "PythonREPL": ("run",), "PythonREPLTool": ("_run", "_arun"), "PythonAstREPLTool": ("_run", "_arun"),
    "ShellTool": ("_run", "_arun"), "PythonInterpreterTool": ("forward",),
    "LocalPythonExecutor": ("__call__",), "CodeInterpreterTool": ("_run",),
    "CodeInterpreterToolSpec": ("code_interpreter",), "UnsafeLocalCodeExecutor": ("execute_code",),
}
ADVICE = {"LocalPythonExecutor": "LocalPythonExecutor keeps variables from step to step in the agent's process; use a "
          "ToolCallingAgent with PythonInterpreterTool, or an executor that is not local"}
FRAMEWORKS = {"langchain_experimental": "langchain", "langchain_community": "langchain",
              "crewai_tools": "crewai", "llama_index": "llama-index", "google": "google-adk"}


def patch(module):
    """Patches whichever of the classes the module defines."""
    top = module.__name__.split(".")[0]
    found = [name for name in METHODS if isinstance(vars(module).get(name), type)
             and vars(module)[name].__module__ == module.__name__]
    if not found:
        raise patching.UnknownShape("%s has none of the classes that execute text" % module.__name__)
    for name in found:
        methods.guard_class(getattr(module, name), METHODS[name], FRAMEWORKS.get(top, top), text_tool=True,
                            advice=ADVICE.get(name, ""))
