package server_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

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
	f := func(code string, outcome wire.Outcome, denied ...wire.Denial) {
		t.Helper()
		res := runRequest(t, &wire.Request{Code: code, TimeoutSeconds: 2}, nil)
		if res.Outcome != outcome || !slices.Equal(res.Denied, denied) || (len(denied) > 0) != strings.Contains(res.Reason, "no network but DNS") {
			t.Errorf("%s:\noutcome %s, denied %v (%s), stderr %q", code, res.Outcome, res.Denied, res.Reason, res.Stderr)
		}
	}
	closed, full := closedPort(t, host), fullPort(t, host)
	url := func(port int) string { return fmt.Sprintf("http://%s:%d/", host, port) }
	// Refused: by a library, with an address in the code, by an event loop.
	f(fmt.Sprintf("import urllib.request\nurllib.request.urlopen(%q)", url(closed)), wire.Failed, wire.DeniedNetwork)
	f(fmt.Sprintf("import socket\nsocket.socket().connect((%q, %d))", host, closed), wire.Failed, wire.DeniedNetwork)
	f(fmt.Sprintf("import asyncio\nasync def main():\n  await asyncio.open_connection(%q, %d)\nasyncio.run(main())", host, closed),
		wire.Failed, wire.DeniedNetwork)
	// Dropped: until the library gives up, and until the deadline.
	f(fmt.Sprintf("import urllib.request\nurllib.request.urlopen(%q, timeout=0.3)", url(full)), wire.Failed, wire.DeniedNetwork)
	f(fmt.Sprintf("import urllib.request\nurllib.request.urlopen(%q)", url(full)), wire.Timeout, wire.DeniedNetwork)
	// The program's own server that is not there, and what has to do with no network.
	f(fmt.Sprintf("import socket\nsocket.create_connection(('127.0.0.1', %d))", closedPort(t, "127.0.0.1")), wire.Failed)
	f(fmt.Sprintf("import socket\nsocket.create_connection(('localhost', %d))", closedPort(t, "127.0.0.1")), wire.Failed)
	f("raise TimeoutError('mine')", wire.Failed)
	f("address = ('192.0.2.1', 80)\nwhile True: pass", wire.Timeout)
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
