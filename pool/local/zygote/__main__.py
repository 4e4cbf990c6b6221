"""The zygote: an interpreter booted once, which forks one sandbox per request.

It never runs a program itself, holds nothing secret, and has one thread. The
service talks to it over descriptor 3, a SOCK_SEQPACKET socket:

    service -> zygote   the configuration, as JSON; once
    zygote  -> service  {"proc": bool, "live": [a folder and why it is no overlay]}
                        when it is ready, or {"error": text}, with "module" when
                        that one cannot be imported, and "folders" when those of
                        "live" are more than can be told
    service -> zygote   an 8-byte id, with the descriptors control, stdout,
                        stderr and any files of cgroups to join: of memory, then of CPU
    zygote  -> service  "P" + id, with pidfds of the sandbox's init and of its
                        interpreter; or "X" + id + an error's text
    zygote  -> service  "E" + id + wait status, when the interpreter has ended

It is process 1 of its own pid namespace: when it ends, all its sandboxes do.
"""

import _signal  # signal wraps its functions in enumerations, which each fork would pay for
import array
import base64
import gc
import json
import os
import select
import signal
import socket
import struct
import sys

import bootstrap
import heap
import linux
import root
import sandbox

CHANNEL, PROGRAM = 3, 4  # the latter is this zip file
MAX_CONFIG = 1 << 20
MSG_CMSG_CLOEXEC = 0x40000000
INIT = "/init"
OOM_SCORE = 500  # of 1000
BOOTSTRAP = "/bootstrap.pyc"
SIGCHLD = int(signal.SIGCHLD)


class Zygote:
    def __init__(self, channel, config):
        self.channel = channel
        self.config = config
        self.layers = sandbox.Layers(config)
        self.filter = linux.Filter(base64.b64decode(config["seccomp"]))
        self.pid_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY)
        # Every init blocks on this pipe and ends with it.
        self.liveness, self._keep_open = os.pipe()
        self.proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)  # closed before any sandbox
        self.running = {}  # pid of the interpreter -> id

    def prepare(self):
        """Imports, then builds the root: modules come from outside of it."""
        bootstrap.furnish()
        if "oom_score" in self.layers:
            end_first()
        sys.path[:] = self.config["sys_path"]
        with linux.Hooks():
            bootstrap.import_all(self.config["preload"])
        self.config["programs"] = {INIT: base64.b64decode(self.config["init"])}
        if self.config["fresh_interpreter"]:
            self.config["programs"][BOOTSTRAP] = compiled_bootstrap()
            argv = [self.config["python"], "-I", "-S", "-B", BOOTSTRAP, self.config["start"]]
            self.config["exec"] = {"argv": argv, "env": None, "two_ends": False}
        root.build(self.config)
        sandbox.bound_cores(self.layers)
        self.config["proc"] = self.can_mount_proc()

    def can_mount_proc(self):
        """Whether a sandbox may have a /proc: some containers forbid it."""
        linux.unshare(linux.NEWPID)
        pid = os.fork()
        if pid == 0:
            try:
                linux.unshare(linux.NEWNS)
                sandbox.mount_proc(self.layers)
                os._exit(0)
            finally:
                os._exit(1)
        linux.enter_namespace(self.pid_namespace, linux.NEWPID)
        return os.waitpid(pid, 0)[1] == 0

    def serve(self):
        deaths = notice_deaths()
        bootstrap.rehearse()
        linux.count_threads(self.proc)
        os.close(self.proc)
        gc.collect()
        self._holes = heap.fill()
        gc.freeze()  # a collection in a sandbox leaves the shared pages shared
        ready = select.poll()
        ready.register(self.channel, select.POLLIN)
        ready.register(deaths, select.POLLIN)
        while True:
            for fd, _ in ready.poll():
                if fd == deaths:
                    os.read(deaths, 4096)
                    self.reap()
                else:
                    self.answer()

    def answer(self):
        message, ancillary, _, _ = self.channel.recvmsg(64, socket.CMSG_SPACE(32), MSG_CMSG_CLOEXEC)
        if not message:
            os._exit(0)  # the service has gone
        fds = array.array("i")
        fds.frombytes(ancillary[0][2])
        try:
            self.spawn(message, list(fds))
        except OSError as e:
            self.channel.send(b"X" + message + str(e).encode()[:500])
        for fd in fds:
            os.close(fd)

    def spawn(self, name, fds):
        if "pids" in self.layers:
            linux.unshare(linux.NEWPID)  # for the children to come; not for us
        try:
            init = self.start_init()
            pid = linux.fork()
            if pid == 0:
                self.become_sandbox(name, fds)
            self.running[pid] = name
            self.announce(name, init, pid)
        finally:
            if "pids" in self.layers:
                linux.enter_namespace(self.pid_namespace, linux.NEWPID)

    def start_init(self):
        actions = [(os.POSIX_SPAWN_DUP2, self.liveness, 0), (os.POSIX_SPAWN_CLOSE, 1), (os.POSIX_SPAWN_CLOSE, 2)]
        return os.posix_spawn(INIT, ["init"], {}, file_actions=actions, setsigmask=[], setsigdef=(SIGCHLD,))

    def announce(self, name, init, pid):
        handles = [os.pidfd_open(init), os.pidfd_open(pid)]
        rights = array.array("i", handles)
        self.channel.sendmsg([b"P" + name], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        for fd in handles:
            os.close(fd)

    def become_sandbox(self, name, fds):
        control = fds[0]
        if "users" in self.layers:
            self.config["host_id"] += int.from_bytes(name, "little") % self.config["host_ids"]
        try:
            _signal.set_wakeup_fd(-1)
            _signal.signal(SIGCHLD, _signal.SIG_DFL)
            sandbox.enter(self.config, self.layers, self.filter, control, fds[1], fds[2], fds[3:])
        except BaseException as e:
            # Before _descriptors has run control is fds[0], afterwards CONTROL; only one is a socket.
            for fd in (sandbox.CONTROL, control):
                try:
                    socket.socket(fileno=fd).send(b"X" + repr(e).encode()[:500])
                    break
                except OSError:
                    pass
        finally:
            os._exit(99)

    def reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            name = self.running.pop(pid, None)
            if name is not None:
                self.channel.send(b"E" + name + struct.pack("<i", status))


def compiled_bootstrap():
    """The bootstrap as a .pyc file, so that a fresh interpreter need not compile it."""
    import importlib.util
    import marshal

    spec = importlib.util.find_spec("bootstrap")
    code = compile(spec.loader.get_source("bootstrap"), BOOTSTRAP, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + struct.pack("<III", 0, 0, 0) + marshal.dumps(code)


def notice_deaths():
    """Returns a descriptor that can be read when a child has ended.

    It stays readable until it is read. An interrupted call would not do: a child
    that ends just before a call that blocks does not interrupt it.
    """
    deaths, note = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(note, warn_on_full_buffer=False)
    signal.signal(SIGCHLD, lambda *_: None)  # one without a handler is not noted
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (SIGCHLD,))  # whoever started us may have blocked it
    return deaths


def own_descriptors():
    """Keeps our two from process 1 of each sandbox, and lets go of any that are not ours.

    Whoever started the service may have left it some.
    """
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > PROGRAM:
                os.close(fd)
            elif fd >= CHANNEL:
                os.set_inheritable(fd, False)
        except OSError:
            pass  # the one that listed them


def end_first():
    """Has the kernel end sandboxes before others when the machine runs out of memory.

    They would inherit the service's own score, which may keep it from being
    ended at all, and with it the way back to that score.
    """
    with open("/proc/self/oom_score_adj", "r+") as f:
        if int(f.read()) < OOM_SCORE:
            f.seek(0)
            f.write(str(OOM_SCORE))


def get_ready(channel, word):
    """Says that all is ready, in one message: a kernel bounds how long one is."""
    message = json.dumps(word, ensure_ascii=False).encode()
    try:
        channel.send(message)
    except OSError:
        give_up(channel, {"error": "its word has %d bytes" % len(message), "folders": len(word["live"])})


def give_up(channel, why):
    channel.send(json.dumps(why).encode())
    os._exit(1)


def main():
    os.environ.pop("LD_BIND_NOW", None)  # for this process, not for programs
    own_descriptors()
    channel = socket.socket(fileno=CHANNEL)
    config = json.loads(channel.recv(MAX_CONFIG))
    try:
        zygote = Zygote(channel, config)
        zygote.prepare()
    except bootstrap.Unimportable as e:
        give_up(channel, {"error": str(e)[:600], "module": e.module})
    except BaseException as e:
        give_up(channel, {"error": ("%s: %s" % (type(e).__name__, e))[:600]})
    get_ready(channel, {"proc": config["proc"], "live": config["live"]})
    zygote.serve()


if __name__ == "__main__":
    main()
