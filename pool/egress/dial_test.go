package egress

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// The address that was judged is the one that is connected to: a name server
// that answers otherwise the second time changes nothing.
func TestRebinding(t *testing.T) {
	plain, _ := servers(t)
	asked := 0
	b := newBench(t, []string{"turn.example:" + plain}, func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			asked++
			return []netip.Addr{netip.MustParseAddr([]string{"192.0.2.1", "127.0.0.1"}[min(asked, 2)-1])}, nil
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://turn.example:"+plain, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The first answer is an address that nobody has: whatever comes of it, not the server.
	if res, err := b.client.Do(req); err == nil {
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			t.Error("the name was looked up again for the connection")
		}
	}
	// The second request is judged anew.
	if code, body := b.get(t, "http://turn.example:"+plain); code != http.StatusForbidden {
		t.Errorf("%d %s", code, body)
	}
	// One closed address among open ones is left out.
	two := newBench(t, []string{"two.example:" + plain}, func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1"), netip.MustParseAddr("64:ff9b::7f00:1")}, nil
		}
	})
	if code, body := two.get(t, "http://two.example:"+plain); code != http.StatusForbidden {
		t.Errorf("%d %s", code, body)
	}
}

// The kernel is asked for this machine's addresses once a connection, however
// many addresses the name has.
func TestOwnIsAskedOnce(t *testing.T) {
	asked := 0
	b := newBench(t, []string{"many.example:80"}, func(o *Options) {
		o.Lookup = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("203.0.113.78")}, nil
		}
		o.Own = func() []netip.Addr {
			asked++
			return []netip.Addr{netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("203.0.113.78")}
		}
	})
	f := func(want int) {
		t.Helper()
		code, body := b.get(t, "http://many.example/")
		if code != http.StatusForbidden || !strings.Contains(body, "203.0.113.77 is this machine") || !strings.Contains(body, "203.0.113.78 is this machine") {
			t.Errorf("%d %s", code, body)
		}
		if asked != want {
			t.Errorf("this machine's addresses were asked for %d times, not %d", asked, want)
		}
	}
	f(1)
	f(2) // they may have changed
}

// A grant of the address itself opens it for granted names as well.
func TestNamedAddress(t *testing.T) {
	plain, _ := servers(t)
	b := newBench(t, []string{"api.example:" + plain, "127.0.0.1:" + plain}, local)
	if code, body := b.get(t, "http://api.example:"+plain); code != 200 {
		t.Errorf("%d %s", code, body)
	}
}
