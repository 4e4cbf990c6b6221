"""Runs one program in this interpreter, as `python main.py` would.

The interpreter is started ahead of time and blocks in `serve` on a control
socket. It reads one request, runs it as `__main__`, sends one record of how it
ended, and exits. The record is sent as soon as the program's output has been
flushed, so that nobody waits for the interpreter to take itself apart.

After the program has started, nothing in this process can be trusted: whoever
reads the record bounds and checks it, and takes nothing in it for more than the
program's own word about itself.

Frames on the control socket are a 4-byte big-endian length and that much JSON.
Python 3.8 and newer, standard library only. It is one module with what is in
causes.py, which stands before it: interpreters are given one source.
"""

import _signal  # signal wraps its functions in enumerations, which each fork would pay for
import ast
import atexit
import base64
import gc
import io
import json
import os
import random
import signal
import struct
import sys
import threading
import traceback
import types

WORK = "/work"
MAIN = "main.py"

# Sources longer than this run without a value for their last expression: the
# syntax tree that finding it takes would eat the program's own memory.
VALUE_SOURCE_BYTES = 128 << 10
VALUE_CHARS = 64 << 10

# The runner sends this signal at the deadline: what is buffered gets out.
INTERRUPT = int(signal.SIGRTMAX)

# What many programs do: an interpreter that will be forked learns it by heart.
REHEARSAL = b"""
import sys
def f(a, b=2):
    return [x * b for x in range(a)]
class A:
    def __init__(self):
        self.x = "%s" % f(3)
try:
    print(A().x, {1: 2}, f"{3.5:.2f}", file=sys.stderr)
    raise ValueError(1)
except ValueError:
    pass
f(2)
"""

# Runs in each fork before "ready" and touches the memory that every program
# touches, so that those page faults are paid before the claim. A longer one would
# cost each sandbox up to a millisecond, for what few programs then use.
WARM_UP = b"print(1)"

# What programs do first with a module that was imported ahead: the parts that it
# imports only when they are used are then there too.
FIRST_USES = {
    "numpy": b"import numpy\nprint(numpy.arange(3.0).mean())",
    "pandas": b"import pandas\nprint(pandas.DataFrame({'a': [1]}).sum())",
}

# Runs after which CPython 3.11 and newer have specialised a piece of code.
REHEARSALS = 20


def furnish():
    """Adds what `import site` would: exit(), help() and the like.

    The interpreter boots without site, which costs a quarter of its start; its
    sys.path is set by hand. Called once, before any sandbox is made of it.
    """
    import site

    site.setquit()
    site.setcopyright()
    site.sethelper()


class Unimportable(Exception):
    """Names a module to preload that cannot be imported; the text is Python's."""

    def __init__(self, module, cause):
        super().__init__("%s: %s" % (type(cause).__name__, cause))
        self.module = module


def import_all(modules):
    for module in modules:
        try:
            __import__(module)
        except BaseException as e:  # whatever a module raises
            raise Unimportable(module, e) from e


def serve(control, work=WORK):
    """Warms up, says ready, runs the one request and ends the process."""
    owner = os.getpid()
    _install_interrupt(control, owner)
    _settle(work)
    _warm_up(work)
    os.write(control, b"R")
    request = _read_frame(control)
    if request is None:
        os._exit(0)
    record = {"exit_code": 1}
    try:
        _prepare(request, work)
        source = request["code"].encode("utf-8", "surrogatepass")
        record = _execute(source, os.path.join(work, MAIN))
        record["exit_code"] = _finish(record["exit_code"], work)
    except BaseException:  # only what the program did to this interpreter gets here
        record["exit_code"] = record["exit_code"] or 1
        _try(traceback.print_exc)
    if os.getpid() == owner:  # a fork of the program ends here too, and says nothing
        _try(_send_record, control, record)
    os._exit(record["exit_code"] & 0xFF)


def _read_frame(control):
    """Reads one frame; None at end of file."""
    head = _read_exactly(control, 4)
    if head is None:
        return None
    body = _read_exactly(control, struct.unpack(">I", head)[0])
    return None if body is None else json.loads(body)


def _read_exactly(fd, size):
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send_record(control, record):
    body = json.dumps(record).encode()
    frame = memoryview(struct.pack(">I", len(body)) + body)
    while frame:
        frame = frame[os.write(control, frame):]


def rehearse():
    """Runs what most programs go through until the interpreter has specialised it.

    Called once before any sandbox is forked: otherwise each of them would do the
    same again, and copy the pages that the code stands in.
    """
    # Once each: what they leave behind in the heap is copied by every fork.
    sources = [source for module, source in FIRST_USES.items() if module in sys.modules]
    for source in sources + [REHEARSAL] * REHEARSALS:
        _muted(_execute, source, os.path.join(WORK, MAIN))


def _warm_up(work):
    """Does what a run does, with its output thrown away."""
    _prepare(json.loads('{"code": ""}'), work)
    _muted(_execute, WARM_UP, os.path.join(work, MAIN))


def _muted(function, *args):
    """Calls function with both outputs going nowhere, and records it there."""
    null = os.open(os.devnull, os.O_RDWR)
    out, err = os.dup(1), os.dup(2)
    os.dup2(null, 1)
    os.dup2(null, 2)
    record = function(*args)
    _flush_files()
    _flush()
    _send_record(null, record)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for fd in (null, out, err):
        os.close(fd)


def _settle(work):
    """Does what every program needs and no request decides."""
    sys.path.insert(0, work)
    os.chdir(work)
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()


def _prepare(request, work):
    """Lays out what the program was given."""
    for name, value in (request.get("env") or {}).items():
        os.environ[name] = value
    for file in request.get("files") or ():
        _write_file(work, file)
    _write(os.path.join(work, MAIN), request["code"].encode("utf-8", "surrogatepass"))
    _set_stdin(request.get("stdin"))
    sys.argv[:] = [MAIN] + list(request.get("args") or ())


def _write(path, data):
    """Writes a file without a file object, which costs more than the writing."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest):]
    finally:
        os.close(fd)


def _write_file(work, file):
    path = os.path.join(work, file["path"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    content = file["content"]
    if file.get("encoding") == "base64":
        data = base64.b64decode(content)
    else:
        data = content.encode("utf-8")
    _write(path, data)


def _set_stdin(text):
    """Puts text on descriptor 0; None leaves it at end of file."""
    if text is None:
        return
    try:
        fd = os.memfd_create("stdin")
    except OSError:  # refused where such memory cannot be counted
        fd = os.open("/tmp", os.O_RDWR | os.O_TMPFILE, 0o600)
    with os.fdopen(os.dup(fd), "wb") as f:
        f.write(text.encode("utf-8"))
    os.lseek(fd, 0, os.SEEK_SET)
    os.dup2(fd, 0)
    os.close(fd)


def _install_interrupt(control, owner):
    def on_interrupt(signum, frame):
        if os.getpid() != owner:
            return
        _flush()
        record = {"exit_code": 128 + signal.SIGKILL}
        _try(lambda: record.update(dialling=_dialling()))
        _try(_send_record, control, record)
        os._exit(0)

    _signal.signal(INTERRUPT, on_interrupt)


def _execute(source, path):
    """Runs source as __main__ and returns the record of how it went."""
    main = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = sys.modules["builtins"]
    sys.modules["__main__"] = main
    record = {"exit_code": 0}
    try:
        body, last = _compile(source, path)
        exec(body, main.__dict__)
        if last is not None:
            record["result"] = _describe(eval(last, main.__dict__))
    except SystemExit as e:
        record["exit_code"] = _exit_code(e.code)
    except BaseException as e:
        record["exit_code"] = 130 if isinstance(e, KeyboardInterrupt) else 1
        _try(lambda: record.update(errors=_errors(e)))  # a class of the program's may refuse to be looked at
        _show(e, path)
    return record


def _compile(source, path):
    """Compiles source, its last expression apart so that its value is known."""
    try:
        if len(source) > VALUE_SOURCE_BYTES:
            return compile(source, path, "exec", dont_inherit=True), None
        tree = ast.parse(source, path)
        if not tree.body or not isinstance(tree.body[-1], ast.Expr):
            return compile(tree, path, "exec", dont_inherit=True), None
        if len(tree.body) == 1 and isinstance(tree.body[0].value, ast.Constant):
            # A lone constant is a docstring to the compiler; its value counts here.
            return compile("", path, "exec"), compile(ast.Expression(tree.body[0].value), path, "eval")
        last = ast.Expression(tree.body.pop().value)
        return (
            compile(tree, path, "exec", dont_inherit=True),
            compile(last, path, "eval", dont_inherit=True),
        )
    except ValueError as e:  # a NUL byte, before Python 3.12
        raise SyntaxError(str(e)) from None


def _describe(value):
    if value is None:
        return None
    try:
        text = repr(value)
    except Exception as e:
        text = "<%s, whose repr raised %s>" % (type(value).__name__, type(e).__name__)
    if len(text) > VALUE_CHARS:
        text = text[:VALUE_CHARS] + "…"
    return text


def _exit_code(code):
    """The exit status of SystemExit(code), as the interpreter has it."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -(1 << 63) <= code < 1 << 63 else 255  # what fits no C long is -1
    _flush()
    _try(print, code, file=sys.stderr)
    return 1


def _finish(code, work):
    """Does what the interpreter does at its end, and flushes."""
    try:
        _save_figures(work)
        threading._shutdown()
        atexit._run_exitfuncs()
    except BaseException:
        _try(traceback.print_exc)
    _try(_flush_files)
    return code if _flush() or code else 120


def _flush_files():
    """Flushes files left open, which the interpreter's own end would do.

    Objects from before the program are frozen and not in the collector's list.
    """
    for kind in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
        for o in gc.get_objects():
            if type(o) is kind and not o.closed:
                _try(o.flush)


def _save_figures(work):
    """Saves the figures that matplotlib still has open as PNG files."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return
    for number in pyplot.get_fignums():
        pyplot.figure(number).savefig(os.path.join(work, "figure-%d.png" % number))


def _flush():
    """Flushes both outputs; False when one of them cannot be written."""
    good = True
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except AttributeError:
            pass  # the program set it to None: nothing to flush
        except BaseException:
            good = False
    return good


def _try(function, *args, **kwargs):
    """Calls function in a process where anything may have been replaced."""
    try:
        function(*args, **kwargs)
    except BaseException:
        pass


def start(control, sys_path, preload, work=WORK):
    """Serves in an interpreter of its own: what a zygote would have done first."""
    furnish()
    sys.path[:] = sys_path
    try:
        import_all(preload)
    except Unimportable as e:
        os.write(control, b"M" + ("%s\0%s" % (e.module, e)).encode("utf-8", "replace")[:500])
        os._exit(1)
    gc.collect()
    gc.freeze()
    serve(control, work)


if __name__ == "__main__":
    start(**json.loads(sys.argv[1]))
