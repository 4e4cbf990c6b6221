"""Shows folders of a program as overlays that hide names, not files.

A mask that is mounted over a file goes when another file is renamed over it, as
editors and programs that refresh a token do; a whiteout in a layer above hides
whatever has the name. And what is a socket or a FIFO in the folder is another
one in the overlay, with nobody at its other end. What is mounted below such a
folder does not show.

The kernel keeps names that an overlay has looked up: each sandbox has overlays
of its own, or files that came since another looked would be missing.
"""

import errno
import os
import stat

import linux

LAYERS = "/layers"  # LAYERS/n/folder, and above it LAYERS/n/masks
KIND = "overlay"
PACKAGES = ("site-packages", "dist-packages")  # folders whose names are packages, no secrets
SIZE = "size=8m,nr_inodes=65536,mode=700"
BESIDE = 100  # folders with a hidden file in which config["never"] is hidden too
# The last one serves kernels that refuse others to unprivileged users.
OPTIONS = ("", ",userxattr")


def prepare(new, config):
    """Makes the layers of config["folders"]; returns folder -> its place.

    A folder that cannot be in an overlay is told in config["live"], with the reason.
    """
    found = {}
    config["shown"] = frozenset(config["paths"])
    if not config["folders"]:
        return found
    linux.mount("tmpfs", new + LAYERS, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, SIZE)
    for n, folder in enumerate(config["folders"]):
        layer = "%s/%d" % (LAYERS, n)
        if not os.path.isdir(folder):
            continue
        try:
            _layer(folder, new + layer, config)
            _try(new + layer, config)
            found[folder] = layer
        except OSError as e:
            config["live"].append("%s: %s" % (folder, e.strerror))
    return found


def _layer(folder, layer, config):
    for name in ("/folder", "/masks", "/try"):
        os.makedirs(layer + name, 0o755)
    linux.mount(folder, layer + "/folder", None, linux.MS_BIND)
    _like(folder, layer + "/masks")
    masks = [path for path in config["masks"] if path != folder and innermost(path, config) == folder]
    for path in masks:
        _white_out(path, folder, layer)
    if os.path.basename(folder) in PACKAGES:
        return
    needed = {p for path in config["paths"] for p in _and_above(path)}
    beside = sorted({os.path.dirname(path) for path in masks} - {folder})
    for parent in [folder] + beside[:BESIDE // len(config["folders"])]:
        for name in config["never"]:
            path = "%s/%s" % (parent, name)
            if path not in needed:
                _white_out(path, folder, layer)


def _and_above(path):
    """The path and the folders that it is in, the innermost first."""
    while path != "/":
        yield path
        path = os.path.dirname(path)


def _white_out(path, folder, layer):
    at, above = folder, layer + "/masks"
    for name in os.path.dirname(path)[len(folder):].split("/")[1:]:
        at, above = at + "/" + name, above + "/" + name
        if not os.path.lexists(above):
            os.mkdir(above, 0o700)
            _like(at, above)
        elif not os.path.isdir(above):
            return  # hidden with the folder that it is in
    above += "/" + os.path.basename(path)
    if not os.path.lexists(above):
        os.mknod(above, stat.S_IFCHR, 0)


def _like(folder, above):
    """Gives a folder of the upper layer, whose rights count, the lower one's."""
    try:
        info = os.stat(folder)
    except FileNotFoundError:
        return  # it has just gone; should it come again, it is closed
    try:
        os.chown(above, info.st_uid, info.st_gid)
    except OSError:
        pass  # another's, to an unprivileged user; the lower one's rights count too
    os.chmod(above, stat.S_IMODE(info.st_mode))


def _try(layer, config):
    if "overlay" in config["without"]:
        raise OSError(errno.EPERM, "left out")
    show(layer, layer + "/try")
    try:
        os.listdir(layer + "/try")
    finally:
        linux.unmount(layer + "/try")


def show(layer, target):
    """Mounts the overlay of a layer's folder and masks."""
    flags = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    options = "lowerdir=%s/masks:%s/folder" % (layer, layer)
    for more in OPTIONS:
        try:
            return linux.mount(KIND, target, KIND, flags, options + more)
        except OSError:
            if more == OPTIONS[-1]:
                raise


def innermost(path, config):
    """Which of config["paths"] shows path: the longest that it is in."""
    return next((p for p in _and_above(path) if p in config["shown"]), None)


def covers(path, config):
    """Whether path is below a folder that is shown as an overlay."""
    return any(path.startswith(folder + "/") for folder in config["overlays"])
