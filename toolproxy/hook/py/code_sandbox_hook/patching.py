"""Applies a framework's patch, and closes the framework's doors when its module
has a shape that the patch does not know."""
import sys

from . import errors, owner, policy as policies, runtime, start, warn


class UnknownShape(Exception):
    """The module is not as the patch knows it. The message says what is missing."""


def apply(module, framework, patch, doors):
    """Patches module, or fails closed. A user's own module of the same name is
    left alone."""
    filename = getattr(module, "__file__", None) or ""
    if owner.is_own(filename, module.__name__):
        return
    version = _version(module)
    try:
        patch(module)
        _note(framework, version, module, "patched", "")
    except UnknownShape as error:
        _note(framework, version, module, "unknown_shape", str(error))
        _close(module, framework, version, doors, str(error))
    except Exception as error:
        why = "the patch failed: %s: %s" % (type(error).__name__, error)
        _note(framework, version, module, "unknown_shape", why)
        _close(module, framework, version, doors, why)


def need(thing, name):
    """The attribute of a module or class that a patch rests on."""
    found = getattr(thing, name, None)
    if found is None:
        raise UnknownShape("%s has no %s" % (getattr(thing, "__name__", thing), name))
    return found


def need_parameter(fn, name):
    """Checks that a function that a patch wraps still takes a parameter."""
    import inspect
    if name not in inspect.signature(fn).parameters:
        raise UnknownShape("%s no longer takes %r" % (getattr(fn, "__qualname__", fn), name))


def _note(framework, version, module, state, detail):
    known = runtime.state().frameworks.get(framework)
    if known is None or state != "patched":
        runtime.state().frameworks[framework] = {
            "name": framework, "version": version, "state": state, "module": module.__name__, "detail": detail}


def _version(module):
    top = module.__name__.split(".")[0]
    distribution = {"agents": "openai-agents", "pydantic_ai": "pydantic-ai-slim", "langchain_core": "langchain-core",
                    "google": "google-adk", "llama_index": "llama-index-core", "strands": "strands-agents"}.get(top, top)
    try:
        from importlib import metadata
        return metadata.version(distribution)
    except Exception:
        return str(getattr(sys.modules.get(top), "__version__", ""))


def _close(module, framework, version, doors, why):
    """Makes the doors raise, so that no tool of this framework runs in the agent.

    In the copy nothing is closed: the function itself is what is wanted."""
    if runtime.state().side == start.COPY:
        return
    warn.unknown_shape(framework, version, why)
    if runtime.policy().mode != policies.ENFORCE:
        return
    message = ("the tools of %s %s cannot be sandboxed: %s; use a version that the documentation lists, or set "
               "CODE_SANDBOX_TOOLS=off" % (framework, version, why))
    closed = [_close_door(module, name, message) for name in doors]
    if not any(closed):
        raise ImportError(message)


def _close_door(module, name, message):
    door = getattr(module, name, None)
    if door is None:
        return False

    def refuse(*args, **kwargs):
        raise errors.Unsandboxable(message, reason="unknown_shape")

    if isinstance(door, type):
        try:
            door.__init__ = refuse
            return True
        except (AttributeError, TypeError):
            return False
    setattr(module, name, refuse)
    return True
