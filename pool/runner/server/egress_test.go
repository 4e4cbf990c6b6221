package server_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/client"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const fetchSource = `import os, socket, threading, urllib.request

def fetch(n):
    got = []
    def one(i):
        with urllib.request.urlopen("http://api.example/%d" % i, timeout=10) as answer:
            got.append(answer.read().decode())
    all = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in all: t.start()
    for t in all: t.join()
    return " ".join(sorted(got))

def half(port):
    with socket.create_connection(("127.0.0.1", port), 10) as s:
        s.sendall(b"ask")
        s.shutdown(socket.SHUT_WR)
        said = b""
        while chunk := s.recv(100):
            said += chunk
    return said.decode()

def kept(port, n):
    all = []
    for i in range(n):
        s = socket.create_connection(("127.0.0.1", port), 10)
        s.sendall(b"ask")
        said = b""
        while chunk := s.recv(100):
            said += chunk
        all.append((s, said))
    return sum(said == b"answer" for _, said in all)

def proxies():
    return [os.environ.get(n) for n in ("http_proxy", "HTTPS_PROXY")]
`

// grantedCopy is a copy that is ready for one of fetchSource's functions.
func grantedCopy(t *testing.T, function string, e *wire.Egress) (*pod, *client.Conn, *wire.Copy, int) {
	t.Helper()
	p, conn, program, port := grantedProgram(t, fetchSource, function, e)
	if _, err := conn.Prepare(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	return p, conn, program, port
}

// grantedProgram is a copy that is closed and has no program yet, and one for it.
func grantedProgram(t *testing.T, source, function string, e *wire.Egress) (*pod, *client.Conn, *wire.Copy, int) {
	t.Helper()
	_, text, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	p := startPodBy(t, (*exec.Cmd).Start, func(c *wire.RunnerConfig) { c.Copy, c.Work, c.Python, c.ProxyPort = true, "", "", port })
	conn := p.freshCopy()
	program := programOf(t, imageFolder(t, map[string]string{"tools.py": source}), function)
	before, _, _ := strings.Cut(source, "def "+function+"(")
	program.Target = asJSON(t, map[string]any{"module": "tools", "qualname": function, "line": strings.Count(before, "\n") + 1, "ordinal": 0})
	program.Egress = e
	return p, conn, program, port
}

// carries is the pool's side: it fetches the program's connections until ctx ends
// or there are no more, and serves and closes each.
func carries(ctx context.Context, conn *client.Conn, serve func(net.Conn)) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := conn.Egress(ctx)
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return done
}

// tellPath answers a request with its path.
func tellPath(c net.Conn) error {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err == nil {
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(req.URL.Path), req.URL.Path)
	}
	return err
}

func called(t *testing.T, conn *client.Conn, program *wire.Copy, args ...any) string {
	t.Helper()
	res, err := conn.Run(t.Context(), &wire.Request{Call: frameOf(t, program, false, args...), TimeoutSeconds: 15}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Call) + res.Stderr
}

// What a program sends to its proxy the pool gets, however many connections, and
// what the pool answers the program gets; it ends with the run.
func TestCarries(t *testing.T) {
	p, conn, program, _ := grantedCopy(t, "fetch", &wire.Egress{Tool: "fetch", Hosts: []string{"api.example:80"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var carried atomic.Int32
	done := carries(ctx, conn, func(c net.Conn) {
		carried.Add(1)
		if err := tellPath(c); err != nil {
			t.Error(err)
		}
	})
	if said := called(t, conn, program, 20); !strings.Contains(said, "/0 /1 /10 /11") {
		t.Errorf("the program got %s", said)
	}
	if n := carried.Load(); n != 20 {
		t.Errorf("%d connections were carried", n)
	}
	p.waitGone(5 * time.Second)
	<-done // who waited for one more is told
}

// A program may end its way and wait for the rest of the other.
func TestCarriesHalves(t *testing.T) {
	_, conn, program, port := grantedCopy(t, "half", &wire.Egress{Tool: "half", Hosts: []string{"api.example:80"}})
	go func() {
		c, err := conn.Egress(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		asked, err := io.ReadAll(c)
		if err != nil || string(asked) != "ask" {
			t.Errorf("%q, %v", asked, err)
		}
		_, _ = io.WriteString(c, "answer to "+string(asked))
	}()
	if said := called(t, conn, program, port); !strings.Contains(said, `"answer to ask"`) {
		t.Errorf("the program got %s", said)
	}
}

// A connection that the pool has ended has no place any more, also when the program
// keeps it: it may have more of them than there are places, one after the other.
func TestCarriesMoreThanPlaces(t *testing.T) {
	_, conn, program, port := grantedCopy(t, "kept", &wire.Egress{Tool: "kept", Hosts: []string{"api.example:80"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := carries(ctx, conn, func(c net.Conn) {
		asked := make([]byte, 3)
		if _, err := io.ReadFull(c, asked); err != nil || string(asked) != "ask" {
			t.Errorf("%q, %v", asked, err)
		}
		_, _ = io.WriteString(c, "answer")
	})
	if said := called(t, conn, program, port, 60); !strings.Contains(said, `"value":60`) {
		t.Errorf("the program got %s", said)
	}
	cancel()
	<-done
}

// Without a grant there is no proxy, nobody to ask for its connections, and
// nothing that speaks of one.
func TestNothingToCarry(t *testing.T) {
	_, conn, program, _ := grantedCopy(t, "proxies", nil)
	_, err := conn.Egress(t.Context())
	if err == nil || !strings.Contains(err.Error(), "this copy has no proxy") {
		t.Errorf("%v", err)
	}
	if said := called(t, conn, program); !strings.Contains(said, `"value":[null,null]`) {
		t.Errorf("the program got %s", said)
	}
}

// Neither the address alone nor another runner at it gives a connection of the
// program: the pool shows its secret, and the runner its key.
func TestCarriesForItsPool(t *testing.T) {
	p, conn, _, _ := grantedCopy(t, "fetch", &wire.Egress{Tool: "fetch", Hosts: []string{"api.example:80"}})
	if status, said := p.post(http.MethodPost, protocol.EgressPath, rand.Text(), ""); status != http.StatusUnauthorized {
		t.Errorf("%d %s", status, said)
	}
	p.cmd.Process.Kill()
	p.waitGone(5 * time.Second)
	other := startPodBy(t, (*exec.Cmd).Start, func(c *wire.RunnerConfig) { *c = p.config; c.Temp = folder(t) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	// The other one is there, and knows the same secret.
	if err := other.waitsFor(ctx, p.secret); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Egress(ctx); err == nil || !strings.Contains(err.Error(), "not the runner that was spoken to before") {
		t.Errorf("%v", err)
	}
}

// waitsFor waits until a runner answers at the pod's address.
func (p *pod) waitsFor(ctx context.Context, secret string) error {
	conn, err := client.Connect(ctx, p.config.Address, secret)
	if err != nil {
		return err
	}
	return conn.Close()
}

// importSource goes around the interpreter's own guard against an import that talks.
const importSource = `import ctypes, os, select, struct

def get(path):
    libc = ctypes.CDLL(None)
    fd = libc.socket(2, 1, 0)
    port = int(os.environ["http_proxy"].rsplit(":", 1)[1])
    if libc.connect(fd, struct.pack("=H", 2) + struct.pack(">H4B8x", port, 127, 0, 0, 1), 16) != 0:
        return "no connection"
    os.write(fd, b"GET http://api.example%s HTTP/1.1\r\nHost: api.example\r\n\r\n" % path)
    said = b"nothing"
    if select.select([fd], [], [], 1)[0]:
        said = os.read(fd, 1000).splitlines()[-1]
    os.close(fd)
    return said.decode()

reached = get(b"/import")

def tried():
    return "the import got " + reached + ", and the run " + get(b"/run")
`

// An import reaches nothing of what its tool may, even when somebody asks for its
// connections then: they are carried once the copy is ready, and not before.
func TestCarriesAfterPrepare(t *testing.T) {
	_, conn, program, _ := grantedProgram(t, importSource, "tried", &wire.Egress{Tool: "tried", Hosts: []string{"api.example:80"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := carries(ctx, conn, func(c net.Conn) {
		_ = tellPath(c) // that of the import has given up
	})
	if _, err := conn.Prepare(ctx, program); err != nil {
		t.Fatal(err)
	}
	if said := called(t, conn, program); !strings.Contains(said, "the import got nothing, and the run /run") {
		t.Errorf("the program got %s", said)
	}
	cancel()
	<-done
}

// A copy that was not made has no connections.
func TestCarriesNothingUnprepared(t *testing.T) {
	p := startPodBy(t, (*exec.Cmd).Start, func(c *wire.RunnerConfig) { c.Copy, c.Work, c.Python = true, "", "" })
	conn := p.freshCopy()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := conn.Egress(ctx); err == nil {
		c.Close()
		t.Error("there is a connection of a program that is not there")
	} else if e := api.From(err); ctx.Err() == nil {
		t.Errorf("it did not wait: %v", e)
	}
}
