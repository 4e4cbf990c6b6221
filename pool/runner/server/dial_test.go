package server_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A network that a firewall closes looks like a server that is down: a program that
// fails by it, or waits for it until its end, is told that there is no network.
func TestDialled(t *testing.T) {
	host := ownAddress(t)
	if host == "" {
		t.Log("nothing to test: this machine has no address but the loopback device's")
		return
	}
	closed, full, down := closedPort(t, host), fullPort(t, host), closedPort(t, "127.0.0.1")
	f := func(proof wire.Proof, seconds float64, code string, outcome wire.Outcome, denied ...wire.Denial) {
		t.Helper()
		code = strings.NewReplacer("HOST", host, "CLOSED", strconv.Itoa(closed), "FULL", strconv.Itoa(full), "DOWN", strconv.Itoa(down)).Replace(code)
		p := startPod(t, nil)
		conn := p.connect()
		if fresh, err := conn.Fresh(t.Context(), proof); err != nil || !fresh.Fresh {
			t.Fatalf("the runner is not fresh: %+v, %v", fresh, err)
		}
		res, err := conn.Run(t.Context(), &wire.Request{Code: code, TimeoutSeconds: seconds}, nil)
		if err != nil {
			t.Fatalf("cannot run: %v", err)
		}
		if res.Outcome != outcome || !slices.Equal(res.Denied, denied) || (len(denied) > 0) != strings.Contains(res.Reason, "no network but DNS") {
			t.Errorf("%s:\noutcome %s, denied %v (%s), stderr %q", code, res.Outcome, res.Denied, res.Reason, res.Stderr)
		}
		p.waitGone(5 * time.Second)
	}
	proved := wire.Proof{Canaries: []string{fmt.Sprintf("127.0.0.1:%d", down)}, WithinMS: 10_000}
	const ends, hangs = 15, 2
	// Refused: by a library, by hand, by an event loop.
	f(proved, ends, "import urllib.request\nurllib.request.urlopen('http://HOST:CLOSED/')", wire.Failed, wire.DeniedNetwork)
	f(proved, ends, "import socket\nhost, port = 'HOST', CLOSED\nsocket.socket().connect((host, port))", wire.Failed, wire.DeniedNetwork)
	f(proved, ends, "import asyncio\nasyncio.run(asyncio.wait_for(asyncio.open_connection('HOST', CLOSED), 9))", wire.Failed, wire.DeniedNetwork)
	// By a socket of the C module's own.
	f(proved, ends, "import _socket\n_socket.socket().connect(('HOST', CLOSED))", wire.Failed, wire.DeniedNetwork)
	// Dropped: until the library gives up, and until the deadline; by an event loop and a thread, too.
	f(proved, ends, "import urllib.request\nurllib.request.urlopen('http://HOST:FULL/', timeout=0.3)", wire.Failed, wire.DeniedNetwork)
	f(proved, hangs, "import socket\nsocket.create_connection(('HOST', FULL))", wire.Timeout, wire.DeniedNetwork)
	f(proved, hangs, "import asyncio\nasyncio.run(asyncio.wait_for(asyncio.open_connection('HOST', FULL), 9))", wire.Timeout, wire.DeniedNetwork)
	f(proved, hangs, "import socket, threading\nt = threading.Thread(target=socket.create_connection, args=[('HOST', FULL)])\nt.start()\nt.join()",
		wire.Timeout, wire.DeniedNetwork)
	// Nobody has looked whether it is closed.
	f(wire.Proof{}, ends, "import socket\nsocket.create_connection(('HOST', CLOSED))", wire.Failed)
	f(wire.Proof{}, hangs, "import socket\nsocket.create_connection(('HOST', FULL))", wire.Timeout)
	// The program's own server that is not there, by whatever name.
	for _, name := range []string{"'localhost'", "'127.1'", "'0'", "socket.gethostname()", "type('S', (str,), {})('127.0.0.1')"} {
		f(proved, ends, "import socket\nrow = ('HOST', 80)\nsocket.socket().connect(("+name+", DOWN))", wire.Failed)
	}
	// What has failed before, and was caught, has nothing to do with the end.
	before := "import asyncio, socket, time\ns = socket.socket()\ns.connect_ex(('HOST', CLOSED))\n"
	f(proved, hangs, before+"while True: pass", wire.Timeout)
	f(proved, hangs, "import socket\ns = socket.socket()\ns.settimeout(0.1)\ntry:\n  s.connect(('HOST', FULL))\nexcept OSError:\n  s.close()\nwhile True: pass", wire.Timeout)
	f(proved, ends, before+"raise TimeoutError('mine')", wire.Failed)
	f(proved, ends, before+"asyncio.run(asyncio.wait_for(asyncio.sleep(9), 0.1))", wire.Failed)
	f(proved, ends, before+"open('x', 'w').close()\nsocket.socket(socket.AF_UNIX).connect('x')", wire.Failed)
	f(proved, ends, "import sqlite3\nconn = sqlite3.connect(':memory:')\nrow = ('Alice', 30)\nraise TimeoutError('mine')", wire.Failed)
}

// ownAddress is one of this machine's that is not the loopback device's, "" for none.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	return ""
}

// closedPort refuses connections while the test lasts: it is taken, and nobody listens.
func closedPort(t *testing.T, host string) int {
	t.Helper()
	_, port := bind(t, host)
	return port
}

// fullPort answers nothing: there is room for one connection, which is there.
func fullPort(t *testing.T, host string) int {
	t.Helper()
	fd, port := bind(t, host)
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return port
}

func bind(t *testing.T, host string) (fd, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	addr := &syscall.SockaddrInet4{Addr: [4]byte(net.ParseIP(host).To4())}
	if err := syscall.Bind(fd, addr); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, bound.(*syscall.SockaddrInet4).Port
}
