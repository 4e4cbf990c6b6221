package escape

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// networkRows look for a way out.
func networkRows() []row {
	return []row{
		{
			name:  "the internet",
			pod:   "a NetworkPolicy drops or rejects what a missing interface would refuse at once: sending is no error, and nothing arrives (P18)",
			layer: "network", without: []string{"network"},
			code: `
for family, kind, address in ((2, 1, ("192.0.2.1", 80)), (2, 2, ("192.0.2.1", 53)), (10, 1, ("2001:db8::1", 80)), (2, 2, ("224.0.0.1", 9)), (2, 2, ("10.0.0.1", 9)), (2, 1, ("169.254.169.254", 80))):
    s = socket.socket(family, kind)
    s.settimeout(0.3)
    try:
        s.connect(address)
        s.send(b"x")
        could("reach %s" % (address,))
    except OSError as e:
        if e.errno not in (errno.ENETUNREACH, errno.EADDRNOTAVAIL): could("almost reach %s: %s" % (address, e))
s = socket.socket(2, 2)
s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
fails("broadcast", lambda: s.sendto(b"x", ("255.255.255.255", 9)), errno.ENETUNREACH)`,
		},
		{
			name: "the machine's own services", layer: "network", without: []string{"network"}, host: listeners,
			here: "a pod has a loopback of its own; P18 dials what a pod reaches",
			code: `
for family, address in ((2, "127.0.0.1"), (10, "::1")):
    port = int(os.environ["PORT%d" % family])
    if port: fails("reach the machine's port", lambda: socket.create_connection((address, port), timeout=2), errno.ECONNREFUSED)
fails("reach an abstract socket", lambda: socket.socket(1, 1).connect("\0" + os.environ["ABSTRACT"]), errno.ECONNREFUSED)`,
		},
		{
			name: "the machine's sockets in files", layer: "a root of its own, which shows none of the folders that hold sockets", without: []string{"root"}, host: listeners,
			here: "sockets in files are those of a machine, which is none of a pod's",
			code: `
# One of its own can be reached: the check would see another.
own = socket.socket(1, 1); own.bind("/tmp/own"); own.listen()
socket.socket(1, 1).connect("/tmp/own")
fails("reach a socket in a file", lambda: socket.socket(1, 1).connect(os.environ["FILE"]), errno.ENOENT)
for path in ("/run", "/var", "/tmp", "/home", "/root", "/mnt", "/srv"):
    for name in (os.listdir(path) if os.path.isdir(path) else ()):
        if (path, name) not in (("/tmp", "own"), ("/var", "tmp")): could("see %s in %s" % (name, path))`,
		},
		{
			name: "sockets of another sandbox", layer: "network", without: []string{"network"},
			beside: `
s = socket.socket(1, 1)
s.bind("\0escape-between-sandboxes")
s.listen()
t = socket.socket(2, 1)
try: t.bind(("127.0.0.1", 48123)); t.listen()
except OSError as e: could("not have port 48123: %s" % e)
time.sleep(1.5)`,
			code: `
fails("reach the other's abstract socket", lambda: socket.socket(1, 1).connect("\0escape-between-sandboxes"), errno.ECONNREFUSED)
fails("reach the other's port", lambda: socket.create_connection(("127.0.0.1", 48123), timeout=2), errno.ECONNREFUSED)`,
		},
		{
			name: "name servers, past a lookup", layer: "the DNS relay, which asks in words of its own", without: []string{"relay"}, host: onlyLookups,
			here: "there the resolver is the cluster's, which a NetworkPolicy names; P18 and P19 say what else is reached",
			code: `
def message(flags, questions, question, more=b"", records=0):
    return struct.pack(">6H", 7, flags, questions, 0, records, 0) + question + more
name = b"\x06escape\x04test\x00"
s = socket.socket(2, 2); s.settimeout(0.5)
def say(what):
    s.sendto(what, ("127.0.0.1", 53))
    try: return s.recv(4096)
    except OSError: return b""
say(message(0x2800, 1, name + b"\x00\x06\x00\x01", name + struct.pack(">HHIH", 1, 1, 1, 4) + b"\1\2\3\4", 1))  # an update
say(message(0x2000, 1, name + b"\x00\x06\x00\x01"))  # a notify
say(message(0x0100, 1, name + b"\x00\xfc\x00\x01"))  # a whole zone
say(message(0x0100, 1, name + b"\x00\x10\x00\x03"))  # the server's version
say(message(0x0100, 2, (name + b"\x00\x01\x00\x01") * 2))
say(message(0x8180, 1, name + b"\x00\x01\x00\x01"))  # an answer
say(message(0x0100, 1, name + b"\x00\x01\x00\x01", b"x" * 900))  # something carried along
say(b"x" * 1400)
fails("speak to a name server by TCP", lambda: socket.create_connection(("127.0.0.1", 53), timeout=1), errno.ECONNREFUSED)
found = socket.getaddrinfo("escape.test", 80, 2, 1)[0][4][0]
if found != "192.0.2.7": could("not look up a name: " + found)`,
		},
		{
			name: "a flood of lookups", layer: "the DNS relay, which counts them", without: []string{"lookups"}, host: fewLookups,
			here: "the resolver is the cluster's and counts for itself; P20 shows what closes lookups", busy: true,
			code: `
question = struct.pack(">6H", 7, 0x0100, 1, 0, 0, 0) + b"\x06escape\x04test\x00\x00\x01\x00\x01"
s = socket.socket(2, 2)
end = time.time() + 1.5
while time.time() < end:
    for _ in range(50):
        try: s.sendto(question, socket.MSG_DONTWAIT, ("127.0.0.1", 53))
        except OSError: time.sleep(0.001)`,
		},
	}
}

// listeners are services of this machine that no program may reach.
func listeners(t *testing.T, _ target) (map[string]string, func() string) {
	t.Helper()
	// Not below /tmp, which each sandbox has its own of; the test's own is too long.
	dir, err := os.MkdirTemp("/var/tmp", "escape")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	reached := make(chan string, 100)
	env := map[string]string{"PORT2": "0", "PORT10": "0", "FILE": filepath.Join(dir, "s"), "ABSTRACT": filepath.Base(dir)}
	for _, at := range [][2]string{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}, {"unix", env["FILE"]}, {"unix", "@" + env["ABSTRACT"]}} {
		l, err := net.Listen(at[0], at[1])
		if err != nil && at[0] == "tcp6" {
			continue // a machine without it
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		if at[1] == env["FILE"] {
			if err := os.Chmod(at[1], 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			env[map[string]string{"tcp4": "PORT2", "tcp6": "PORT10"}[at[0]]] = fmt.Sprint(a.Port)
		}
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				reached <- at[1]
				conn.Close()
			}
		}()
	}
	return env, func() string {
		select {
		case who := <-reached:
			return who + " was reached"
		default:
			return ""
		}
	}
}

// onlyLookups wants that a plain lookup arrives at the name server, and no more.
func onlyLookups(_ *testing.T, on target) (map[string]string, func() string) {
	m, ok := on.(*machine)
	if !ok { // another target's name servers are not ours to look at
		return nil, func() string { return "" }
	}
	return nil, func() string {
		m.names.mu.Lock()
		defer m.names.mu.Unlock()
		if len(m.names.odd) > 0 || m.names.lookups == 0 {
			return fmt.Sprintf("the name server was sent %v, and %d lookups", m.names.odd, m.names.lookups)
		}
		return ""
	}
}

// fewLookups wants that a flood ends at the relay.
func fewLookups(_ *testing.T, on target) (map[string]string, func() string) {
	m, ok := on.(*machine)
	if !ok {
		return nil, func() string { return "" }
	}
	m.names.mu.Lock()
	before := m.names.lookups
	m.names.mu.Unlock()
	return nil, func() string {
		m.names.mu.Lock()
		defer m.names.mu.Unlock()
		if n := m.names.lookups - before; n == 0 || n > 1000 {
			return fmt.Sprintf("the name server was sent %d lookups", n)
		}
		return ""
	}
}
