"""Makes the interpreter of a pod ready for its one run.

`told` is what the runner told this interpreter: the bootstrap's source, the
control socket, the working directory and the modules to import ahead. Answers
with one line of JSON on the control socket; then the bootstrap takes over.
"""

import gc
import json
import os
import sys
import types


def load(source):
    module = types.ModuleType("bootstrap")
    exec(compile(source, "bootstrap.py", "exec"), module.__dict__)
    return module


def import_ahead(bootstrap, modules):
    """Imports what the image has; says what it has, and why not the others."""
    loaded, refused = [], {}
    for module in modules:
        try:
            bootstrap.import_all([module])
            loaded.append(module)
        except bootstrap.Unimportable as e:
            refused[module] = str(e)[:300]
    return loaded, refused


def get_ready(bootstrap, modules):
    """Does what takes time, with what it prints thrown away."""
    null = os.open(os.devnull, os.O_WRONLY)
    outputs = [os.dup(1), os.dup(2)]
    os.dup2(null, 1)
    os.dup2(null, 2)
    found = import_ahead(bootstrap, modules)
    bootstrap.rehearse()
    os.dup2(outputs[0], 1)
    os.dup2(outputs[1], 2)
    for fd in [null] + outputs:
        os.close(fd)
    return found


def main(told):
    bootstrap = load(told["bootstrap"])
    loaded, refused = get_ready(bootstrap, told["preload"])
    word = {"python": "%d.%d.%d" % sys.version_info[:3], "preloaded": loaded, "refused": refused}
    os.write(told["control"], json.dumps(word).encode() + b"\n")
    bootstrap.watch_dials()
    gc.collect()
    gc.freeze()
    bootstrap.serve(told["control"], told["work"])


main(told)  # noqa: F821  (the runner's first line has read it)
