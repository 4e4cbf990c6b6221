package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/protocol"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const okLine = `"result":{"outcome":"ok","stdout":"1\n"}}`

// fake is a runner that answers a run by a script.
func fake(t *testing.T, script http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == protocol.FreshPath {
			io.WriteString(w, `{"fresh":true,"python":"3.11.2"}`)
			return
		}
		script(w, r)
	}))
	s.Config.ErrorLog = nil
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, s *httptest.Server, d Dialer) *Conn {
	t.Helper()
	conn, err := d.Connect(t.Context(), s.Listener.Addr().String(), "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if fresh, err := conn.Fresh(t.Context(), wire.Proof{}); err != nil || !fresh.Fresh {
		t.Fatalf("%+v, %v", fresh, err)
	}
	return conn
}

// raw takes the connection from the server and writes text on it, then ends it.
func raw(t *testing.T, w http.ResponseWriter, text string) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	io.WriteString(conn, text)
	conn.Close()
}

// What a run's answer may be, and what is made of it.
func TestAnswers(t *testing.T) {
	f := func(script func(w http.ResponseWriter, nonce string), code api.Code, executed api.Executed) *wire.Result {
		t.Helper()
		s := fake(t, func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			script(w, r.Header.Get(protocol.NonceHeader))
		})
		res, err := connect(t, s, Dialer{MaxAnswer: 100_000}).Run(t.Context(), &wire.Request{Code: "<&>"}, nil)
		if code == "" {
			if err != nil {
				t.Errorf("the error is %v", err)
			}
			return res
		}
		e, ok := errors.AsType[*api.Error](err)
		if !ok || e.Code != code || e.Executed != executed || res != nil {
			t.Errorf("%+v, %v: %+v", res, err, e)
		}
		return nil
	}
	line := func(w io.Writer, nonce, rest string) { fmt.Fprintf(w, `{"nonce":%q,%s`+"\n", nonce, rest) }
	refusal := func(status int, body string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) { w.WriteHeader(status); io.WriteString(w, body) }
	}
	// A result.
	if res := f(func(w http.ResponseWriter, n string) { line(w, n, okLine) }, "", ""); res == nil || res.Stdout != "1\n" {
		t.Errorf("%+v", res)
	}
	// The runner's own error, as it is.
	f(func(w http.ResponseWriter, n string) {
		line(w, n, `"error":{"code":"timeout","message":"m","executed":"maybe"}}`)
	}, api.Timeout, api.Maybe)
	// Refused: it has served, and ran nothing of this one.
	f(refusal(410, `{"error":{"code":"sandbox_lost","message":"m","executed":"no"}}`), api.SandboxLost, api.No)
	f(refusal(401, `{"error":{"code":"unauthenticated","message":"m","executed":"no"}}`), api.Unauthenticated, api.No)
	// Refused by something that is no runner of ours.
	f(refusal(500, `{"error":{"code":"nice try","executed":"no"}}`), api.SandboxLost, api.Maybe)
	f(refusal(503, strings.Repeat("x", 1<<20)), api.SandboxLost, api.Maybe)
	// Cut off: before an answer, in its head, before and within its last line.
	f(func(w http.ResponseWriter, _ string) { raw(t, w, "") }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, _ string) { raw(t, w, "HTTP/1.1 200") }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, _ string) { io.WriteString(w, `{"stream":"stdout","text":"a"}`+"\n") }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, n string) {
		raw(t, w, "HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n{\"nonce\":\""+n)
	}, api.SandboxLost, api.Maybe)
	// Garbage in place of HTTP, and of JSON.
	f(func(w http.ResponseWriter, _ string) { raw(t, w, strings.Repeat("\x00", 10000)) }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, _ string) { io.WriteString(w, "[]\n") }, api.SandboxLost, api.Maybe)
	// A result with another nonce, or none.
	f(func(w http.ResponseWriter, n string) { line(w, "x"+n[1:], okLine) }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, _ string) { io.WriteString(w, "{"+okLine+"\n") }, api.SandboxLost, api.Maybe)
	// A result that no runner gives.
	f(func(w http.ResponseWriter, n string) { line(w, n, `"result":{"outcome":"fine"}}`) }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, n string) { line(w, n, `"result":{"outcome":"ok","exit_code":256}}`) }, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, n string) {
		line(w, n, `"result":{"outcome":"ok","files":[{"path":"../x"}]}}`)
	}, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, n string) { line(w, n, `"error":{"code":"fine"}}`) }, api.SandboxLost, api.Maybe)
	// An answer without end: of lines, and of one line.
	f(func(w http.ResponseWriter, _ string) {
		for {
			if _, err := io.WriteString(w, `{"stream":"stdout","text":"a"}`+"\n"); err != nil {
				return
			}
		}
	}, api.SandboxLost, api.Maybe)
	f(func(w http.ResponseWriter, _ string) {
		for {
			if _, err := io.WriteString(w, strings.Repeat("x", 1000)); err != nil {
				return
			}
		}
	}, api.SandboxLost, api.Maybe)
}

// Output reaches the sink in order; what is no output does not.
func TestStream(t *testing.T) {
	s := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(protocol.StreamHeader) != "" {
			t.Error("the stream was not asked for")
		}
		io.WriteString(w, `{"stream":"stdout","text":"a"}`+"\n"+`{"stream":"stderr","text":"b"}`+"\n"+`{"stream":"item","text":"c"}`+"\n{}\n")
		fmt.Fprintf(w, `{"nonce":%q,%s`+"\n", r.Header.Get(protocol.NonceHeader), okLine)
	})
	var got string
	res, err := connect(t, s, Dialer{}).Run(t.Context(), &wire.Request{}, func(s wire.Stream, text string) { got += string(s) + text })
	if err != nil || res.Outcome != wire.OK || got != "stdoutastderrb" {
		t.Errorf("%+v, %v, %q", res, err, got)
	}
}

// Only a request of which no byte went out has surely not run.
func TestExecuted(t *testing.T) {
	f := func(err error, want api.Executed) {
		t.Helper()
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Executed != want {
			t.Errorf("the error is %v, %+v", err, e)
		}
	}
	reached := make(chan struct{}, 10)
	s := fake(t, func(http.ResponseWriter, *http.Request) { reached <- struct{}{}; time.Sleep(200 * time.Millisecond) })
	// The runner ends while it waits, and the pool sees it.
	conn := connect(t, s, Dialer{})
	s.CloseClientConnections()
	select {
	case <-conn.Broken():
	case <-time.After(5 * time.Second):
		t.Fatal("the end of the connection was not noticed")
	}
	_, err := conn.Run(t.Context(), &wire.Request{}, nil)
	f(err, api.No)
	// The caller is gone before.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = connect(t, s, Dialer{}).Run(ctx, &wire.Request{}, nil)
	f(err, api.No)
	// It has no time left for the answer.
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = connect(t, s, Dialer{}).Run(ctx, &wire.Request{}, nil)
	f(err, api.Maybe)
	<-reached
	// A second run on the same connection.
	conn = connect(t, s, Dialer{})
	_, err = conn.Run(t.Context(), &wire.Request{}, nil)
	f(err, api.Maybe)
	_, err = conn.Run(t.Context(), &wire.Request{}, nil)
	f(err, api.No)
	// Nothing at all can be written: the connection takes nothing any more.
	var stuck *stuckConn
	conn = connect(t, s, Dialer{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		stuck = &stuckConn{Conn: raw}
		return stuck, err
	}})
	stuck.on = true
	_, err = conn.Run(t.Context(), &wire.Request{}, nil)
	f(err, api.No)
	// One byte could be.
	conn = connect(t, s, Dialer{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		stuck = &stuckConn{Conn: raw, lets: 1}
		return stuck, err
	}})
	stuck.on = true
	_, err = conn.Run(t.Context(), &wire.Request{}, nil)
	f(err, api.Maybe)
}

// stuckConn fails to write once it is on, after so many bytes.
type stuckConn struct {
	net.Conn
	on   bool
	lets int
}

func (s *stuckConn) Write(b []byte) (int, error) {
	if s.on {
		return s.lets, errors.New("stuck")
	}
	return s.Conn.Write(b)
}

// A runner that is not there yet is waited for, within the caller's bound.
func TestConnect(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	began := time.Now()
	if _, err := Connect(ctx, addr, "s"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("the error is %v", err)
	}
	if took := time.Since(began); took < 250*time.Millisecond || took > 2*time.Second {
		t.Errorf("it tried for %s", took)
	}
	// It comes at last: at first with nothing to say, then in earnest.
	tries := 0
	s := fake(t, func(http.ResponseWriter, *http.Request) {})
	conn, err := Dialer{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		if tries++; tries < 4 {
			ours, theirs := net.Pipe()
			theirs.Close()
			return ours, nil
		}
		return (&net.Dialer{}).DialContext(ctx, network, s.Listener.Addr().String())
	}}.Connect(t.Context(), addr, "s")
	if err != nil || tries != 4 {
		t.Fatalf("%d tries, %v", tries, err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Errorf("a second close: %v", err)
	}
	<-conn.Broken()
}

// A runner is seen soon after it listens, in proportion to how long that took;
// one that never does is not dialled more than ten times a second.
func TestConnectPauses(t *testing.T) {
	f := func(listens, most time.Duration, tries int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			began, count := time.Now(), 0
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := Dialer{Dial: func(context.Context, string, string) (net.Conn, error) {
				count++
				if time.Since(began) >= listens {
					cancel()
				}
				return nil, errors.New("nobody listens")
			}}.Connect(ctx, "192.0.2.1:1", "s")
			if late := time.Since(began) - listens; err == nil || late < 0 || late > most {
				t.Errorf("after %s it was seen %s late: %v", listens, late, err)
			}
			if count > tries {
				t.Errorf("in %s it was dialled %d times", listens, count)
			}
		})
	}
	f(0, 0, 1)
	f(100*time.Millisecond, 5*time.Millisecond, 21)
	f(640*time.Millisecond, 20*time.Millisecond, 80)
	f(time.Minute, 100*time.Millisecond, 720)
}

// An answer to whether it is fresh that never ends, or is none, is no answer.
func TestFreshAnswers(t *testing.T) {
	f := func(write func(w io.Writer)) {
		t.Helper()
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w) }))
		t.Cleanup(s.Close)
		conn, err := Connect(t.Context(), s.Listener.Addr().String(), "s")
		if err != nil {
			t.Fatal(err)
		}
		fresh, err := conn.Fresh(t.Context(), wire.Proof{})
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.SandboxLost || fresh.Fresh {
			t.Errorf("%+v, %v", fresh, err)
		}
		<-conn.Broken()
	}
	// Spaces without end after a good beginning.
	f(func(w io.Writer) {
		io.WriteString(w, `{"fresh":true}`)
		for {
			if _, err := io.WriteString(w, strings.Repeat(" ", 4096)); err != nil {
				return
			}
		}
	})
	// No JSON, and nothing.
	f(func(w io.Writer) { io.WriteString(w, "yes") })
	f(func(io.Writer) {})
}
