package escape

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fileRows write where they should not, read what is not theirs, and lay traps
// among the files that the service reads.
func fileRows() []row {
	return []row{
		{
			name:  "the machine's programs and libraries",
			layer: "a read-only root (behind it: another user)", without: []string{"readonly"},
			code: `
# In a pod they are root's as well, which is seen first.
closed = (errno.EROFS, errno.EACCES, errno.EPERM) if POD else (errno.EROFS,)
for path in ("/", "/usr", "/usr/bin", "/usr/lib", "/etc", "/dev", "/run", "/var"):
    fails("write into " + path, lambda: open(path + "/escape", "w"), *closed)
for path in ("/etc/passwd", "/usr/bin/env", "/etc/resolv.conf", "/opt/code-sandbox/runner" if POD else "/init"):
    fails("change " + path, lambda: open(path, "r+"), errno.EROFS, errno.EACCES, errno.ETXTBSY)
    fails("remove " + path, lambda: os.unlink(path), *closed)
    fails("open up " + path, lambda: os.chmod(path, 0o777), *closed)`,
		},
		{
			name: "files of the machine and its users", layer: "a root of its own, which shows programs and libraries only", without: []string{"root"}, host: files,
			here: "its files are in the image, and its node has no folder in it; test/e2e/runs looks for tokens and secrets",
			code: `
for path in os.environ["FILES"].split(":"):
    if os.path.lexists(path): could("see " + path)
for path in ("/home", "/root", "/boot", "/mnt", "/media", "/srv", "/lost+found", "/etc/shadow", "/etc/ssh", "/etc/hostname", "/dev/termination-log", "/dev/mem", "/dev/kmsg",
             "/dev/sda", "/dev/vda", "/dev/kvm", "/dev/fuse", "/dev/net", "/var/run/docker.sock", "/run/docker.sock", "/run/secrets", "/var/lib", "/var/log"):
    if os.path.lexists(path): could("see " + path)
if os.listdir("/run") or os.listdir("/sys"): could("see what is in /run or /sys")
for shown in ("/etc/passwd", "/etc/hosts"):
    if os.path.getsize(shown) > 200: could("read the machine's " + shown)`,
		},
		{
			name: "links out of the working directory", layer: "the runner, which opens regular files below one folder only", outside: true, host: files,
			here: "the secret that links lead to is a file of this machine; the runner that follows none is the same program there",
			code: `
for i, path in enumerate(["/etc/shadow", "/etc/passwd", "/proc/1/environ", "/proc/self/environ", "/", "..", "/work"] + os.environ["FILES"].split(":")):
    os.symlink(path, "link-%d" % i)
os.symlink("loop", "loop")
os.mkdir("folder")
os.symlink("/etc", "folder/etc")
fails("link to a file outside", lambda: os.link("/etc/passwd", "hard"), errno.EXDEV, errno.EPERM)
open("regular", "w").write("mine")`,
			want: only("regular"),
		},
		{
			name: "files that are none", layer: "the runner", outside: true,
			code: `
os.mkfifo("fifo")
socket.socket(1, 1).bind("socket")
open("regular", "w").write("mine")
os.chmod("regular", 0o600)
open(b"not utf-8 \xff\xfe", "w").write("x")
os.mkdir(b"folder \xff"); open(b"folder \xff/f", "w").write("x")
open("new\nline\t\x1b[31m", "w").write("x")
open("n" * 255, "w").write("x")
with open("sparse", "wb") as f: f.truncate(200 << 20)`,
			want: func(r *result) string {
				if r.Outcome != "ok" || len(r.Files) != 5 || len(r.FilesOmitted) != 3 {
					return fmt.Sprintf("files %.300s, omitted %v, %s", paths(r), r.FilesOmitted, describe(r))
				}
				return held(r)
			},
		},
		{
			name: "folders 10,000 deep", layer: "the runner, which looks so deep and no deeper", outside: true,
			code: `
open("regular", "w").write("mine")
at = os.open(".", os.O_RDONLY)
try:
    for i in range(10000):
        os.mkdir("d" * 40, dir_fd=at)
        below = os.open("d" * 40, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
except OSError:
    if not GVISOR: raise  # whose kernel bounds the depth itself`,
			want: only("regular"),
		},
		{
			name: "15,000 files", layer: "the runner, which names so many and no more", outside: true,
			code: `for i in range(15000): os.close(os.open("f%d" % i, os.O_CREAT | os.O_WRONLY))`,
			want: func(r *result) string {
				if len(r.Files) > 200 || len(r.FilesOmitted) > 101 {
					return fmt.Sprintf("%d files, %d omitted", len(r.Files), len(r.FilesOmitted))
				}
				return held(r)
			},
		},
		{
			name: "a working directory that is closed", layer: "the runner, where it has no rights of root", outside: true, user: true,
			code: `
open("regular", "w").write("mine")
os.mkdir("closed"); open("closed/f", "w").write("x"); os.chmod("closed", 0)
try: os.chmod(".", 0)
except PermissionError: pass`,
			want: func(r *result) string { return missing(r, "regular") },
		},
		{
			name: "traces of another run", layer: "scratch: a file system of its own", without: []string{"scratch", "readonly", "users"}, beside: `
for p in ("/tmp", "/work", "/dev/shm"): open(p + "/marker", "w").write("x")
try: open("/var/tmp/marker", "w").write("x")
except OSError: pass  # a pod has it as its image does
time.sleep(1.5)`,
			code: `
for p in ("/tmp", "/work", "/dev/shm", "/var/tmp", "/run", "/run/lock"):
    if os.path.exists(p + "/marker"): could("see the other's files in " + p)`,
		},
	}
}

// files are some of this machine, of the service's user, where secrets stand.
func files(t *testing.T, _ target) (map[string]string, func() string) {
	t.Helper()
	var paths []string
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{os.TempDir(), home, "/dev/shm", "/var/tmp"} {
		f, err := os.CreateTemp(dir, "escape-*")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("a secret of the machine"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := os.Chmod(f.Name(), 0o666); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, f.Name())
		t.Cleanup(func() { os.Remove(f.Name()) })
	}
	return map[string]string{"FILES": strings.Join(paths, ":")}, func() string {
		for _, p := range paths {
			if b, err := os.ReadFile(p); err != nil || string(b) != "a secret of the machine" {
				return filepath.Base(p) + " was changed"
			}
		}
		return ""
	}
}

// only wants one file in the answer, and all the rest named at most.
func only(path string) func(*result) string {
	return func(r *result) string {
		if len(r.Files) != 1 {
			return fmt.Sprintf("%d files: %.300s; %s", len(r.Files), paths(r), describe(r))
		}
		return missing(r, path)
	}
}

// missing wants a program that held, and its file.
func missing(r *result, path string) string {
	for _, f := range r.Files {
		if f.Path == path && f.Content == "mine" {
			return held(r)
		}
	}
	return fmt.Sprintf("%q is not among the files %.300s; %s", path, paths(r), describe(r))
}

// paths names the files of an answer, whose content may be the machine's.
func paths(r *result) string {
	var names []string
	for _, f := range r.Files {
		names = append(names, f.Path)
	}
	return strings.Join(names, " ")
}
