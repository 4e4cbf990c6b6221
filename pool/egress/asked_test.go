package egress

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool/pooltest"
)

// What a host sends unasked, before a request or after its answer, is in no log,
// and its connection serves no other request.
func TestUnaskedIsNotLogged(t *testing.T) {
	var said pooltest.Buffer
	usual := log.Writer()
	log.SetOutput(&said) // net/http has no other for it
	defer log.SetOutput(usual)
	var logged pooltest.Buffer
	ours := hclog.New(&hclog.LoggerOptions{Level: hclog.Trace, Output: &logged})
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	f := func(before, after string, status int) {
		t.Helper()
		at, connections := odd(t, before, after)
		b := newBench(t, []string{"127.0.0.1:" + at}, func(o *Options) { o.Logger = ours })
		for range 20 {
			if got, body := b.get(t, "http://127.0.0.1:"+at+"/"); got != status || status == 200 && body != "ok" {
				t.Errorf("%q %q: got %d %q", before, after, got, body)
			}
		}
		b.close()
		if n := connections(); n != 20 {
			t.Errorf("%d connections for 20 requests", n)
		}
	}
	f("", answer+"SECRET of the host", 200)
	f("SECRET of the host\r\n\r\n", "", http.StatusBadGateway)
	f("", "SECRET of the host\r\n\r\n", http.StatusBadGateway)
	f("", "HTTP/1.1 SECRET of the host\r\n\r\n", http.StatusBadGateway)
	if got := said.String(); got != "" {
		t.Errorf("the log says %q", got)
	}
	if got := logged.String(); strings.Contains(got, "SECRET") || !strings.Contains(got, unanswered) {
		t.Errorf("our log says %q", got)
	}
}

// odd is a host that sends something before it is asked, and answers so.
func odd(t *testing.T, before, after string) (at string, connections func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	served := 0
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			served++
			mu.Unlock()
			work.Go(func() {
				defer c.Close()
				_, _ = io.WriteString(c, before) // what fails is seen at the other end
				in := bufio.NewReader(c)
				if _, err := http.ReadRequest(in); err == nil {
					_, _ = io.WriteString(c, after)
					_, _ = io.Copy(io.Discard, in) // until the proxy closes
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	return port(t, l.Addr()), func() int { mu.Lock(); defer mu.Unlock(); return served }
}
