"""Turns a fresh fork of the zygote into a closed sandbox, step by step.

The order matters: whatever needs a right comes before the right is given up,
and the filter of system calls comes last. Steps named in config["without"] are
left out, so that tests can show what each of them stops.
"""

import _socket  # without the Python layer of socket, which each fork would pay for
import array
import os
import resource

import bootstrap
import linux
import overlay
import root

UID = 1000  # inside its own user namespace
CONTROL = 3
TMPFS = linux.MS_NOSUID | linux.MS_NODEV


class Layers:
    def __init__(self, config):
        self._without = frozenset(config["without"])

    def __contains__(self, layer):
        return layer not in self._without


def enter(config, layers, seccomp_filter, control, out, err, cgroups):
    """Closes the process in and serves its one run; does not return."""
    _join(cgroups[:1])
    _namespaces(layers)
    _files(config, layers)
    _hand_over(control, _network(config, layers), _egress(config))
    _give_way(config["nice"], cgroups[1:], layers)
    _descriptors(control, out, err, layers)
    _user(config, layers)
    _limits(config, layers)
    _lock(layers, seccomp_filter)
    if config["exec"]:
        _execute(config["exec"])
    bootstrap.serve(CONTROL)


def _join(cgroups):
    for fd in cgroups:
        os.write(fd, b"0")


def _execute(program):
    """Becomes another interpreter, which finds the control socket as CONTROL."""
    if program["two_ends"]:
        os.dup2(CONTROL, CONTROL + 1)
    os.set_inheritable(CONTROL, True)
    env = os.environ if program["env"] is None else program["env"]
    os.execve(program["argv"][0], program["argv"], env)


def _namespaces(layers):
    flags = linux.NEWNS
    for layer, flag in (("network", linux.NEWNET), ("ipc", linux.NEWIPC), ("hostname", linux.NEWUTS)):
        if layer in layers:
            flags |= flag
    linux.unshare(flags)
    if "hostname" in layers:
        linux.set_hostname("sandbox")


def _files(config, layers):
    """One tmpfs holds all that the program can write, within one budget."""
    limits = config["limits"]
    options = "mode=755"
    if "disk" in layers:
        options += ",size=%d,nr_inodes=%d" % (limits["disk_bytes"], limits["disk_files"])
    if "scratch" in layers:
        linux.mount("tmpfs", "/scratch", "tmpfs", TMPFS, options)
    for name, target, mode in (("work", "/work", 0o777), ("tmp", "/tmp", 0o1777), ("shm", "/dev/shm", 0o1777)):
        if "scratch" in layers or not os.path.exists("/scratch/" + name):
            os.mkdir("/scratch/" + name)
            os.chmod("/scratch/" + name, mode)
        linux.mount("/scratch/" + name, target, None, linux.MS_BIND)
    if "scratch" in layers:
        linux.unmount("/scratch")
    for source, target in config["late"]:
        root.reveal(source, target)
    if config["folders"]:
        linux.unmount(overlay.LAYERS)  # with the folders as they are
    if config["proc"]:
        mount_proc(layers)


def mount_proc(layers):
    linux.mount("proc", "/proc", "proc", TMPFS | linux.MS_NOEXEC, "subset=pid" if "proc" in layers else None)


def _network(config, layers):
    """Brings up the loopback device, the only one; returns the DNS socket if any."""
    if "network" not in layers:
        return None
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    linux.loopback_up(sock.fileno())
    if config["dns"] == "relay":
        sock.bind(("127.0.0.1", 53))
    return sock


def _egress(config):
    """Listens for the service, which answers as a proxy; None in most sandboxes."""
    if not config["egress_port"]:
        return None
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.bind(("127.0.0.1", config["egress_port"]))
    sock.listen(64)
    return sock


def _hand_over(control, dns, egress):
    """Gives the service the working directory, the DNS socket to answer on, and
    the one to accept on as a proxy."""
    fds = [os.open("/work", os.O_RDONLY | os.O_DIRECTORY)]
    if dns is not None:
        fds.append(dns.fileno())
    if egress is not None:
        fds.append(egress.fileno())
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, control)
    channel.sendmsg([b"F"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", fds))])
    channel.detach()  # the descriptor stays open
    if dns is not None:
        dns.close()
    if egress is not None:
        egress.close()
    os.close(fds[0])


def _descriptors(control, out, err, layers):
    """Leaves four descriptors: input at end of file, two outputs, control."""
    null = os.open(os.devnull, os.O_RDONLY)
    # The targets may be among the sources: first move them all out of the way.
    moved = [os.dup2(fd, 100 + i, inheritable=False) for i, fd in enumerate((null, out, err, control))]
    for target, fd in enumerate(moved):
        os.dup2(fd, target, inheritable=target < CONTROL)
    if "descriptors" in layers:
        os.closerange(CONTROL + 1, 4096)
    os.chdir("/work")


def _give_way(nice, cgroups, layers):
    """Lets the service and its neighbours go first, from here on: what comes
    before is the service's own work, and may hold up others.

    In a cgroup of its own it has one share with all that it forks. Elsewhere a
    session may be a scheduling group, and then it is the group that must be nice.
    That is refused to an unprivileged user now and then.
    """
    _join(cgroups)
    if "cgroup" in layers:
        linux.unshare(linux.NEWCGROUP)  # where it is now is all that it sees
    os.setsid()
    os.nice(nice)
    if cgroups:
        return  # the kernel looks at nothing else
    try:
        fd = os.open("/proc/self/autogroup", os.O_WRONLY)
        os.write(fd, b"%d" % nice)
        os.close(fd)
    except OSError:
        pass


def _user(config, layers):
    """Becomes a user without any right, in a user namespace of its own.

    The namespace gives the sandbox its own count of processes: without it, one
    program's fork bomb would use up the count of all that share the user id.
    """
    if not config["unprivileged"] and "capabilities" in layers:
        host = config["host_id"]
        os.setgroups([])
        os.setresgid(host, host, host)
        os.setresuid(host, host, host)
    if "user" in layers:
        linux.prctl(linux.PR_SET_DUMPABLE, 1)  # or /proc/self would not be ours to write
        uid, gid = os.getuid(), os.getgid()
        linux.unshare(linux.NEWUSER)
        _map_user(uid, gid)
    if "capabilities" in layers:
        if "user" in layers:
            linux.prctl(linux.PR_SET_SECUREBITS, linux.SECUREBITS)
        linux.drop_capabilities()


def _map_user(uid, gid):
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (UID, uid)), ("gid_map", "%d %d 1" % (UID, gid))):
        fd = os.open("/proc/self/" + name, os.O_WRONLY)
        os.write(fd, text.encode())
        os.close(fd)


def bound_cores(layers):
    """Bounds core dumps to one byte, while there may be a right to raise it to that.

    Not to zero: see coreRules in pool/seccomp.
    """
    if "rlimits" in layers:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
        except ValueError:
            pass  # it is zero, and this user may not raise it


def _limits(config, layers):
    if "rlimits" not in layers:
        return
    limits = config["limits"]
    wanted = {
        resource.RLIMIT_SIGPENDING: 1024,  # the user's other sandboxes have theirs
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_NPROC: limits["processes"],
        resource.RLIMIT_FSIZE: limits["disk_bytes"],
    }
    if config["address_space"]:
        wanted[resource.RLIMIT_AS] = config["address_space"]
    for name, value in wanted.items():
        hard = resource.getrlimit(name)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(name, (value, value))


def _lock(layers, seccomp_filter):
    if "no_new_privs" in layers:
        linux.prctl(linux.PR_SET_NO_NEW_PRIVS, 1)
    if "seccomp" in layers:
        seccomp_filter.install()
