package kube

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A pod's policy says what its tools may reach, whatever its sidecar asks for.
func TestCopyGrants(t *testing.T) {
	inTown(t, func(o *town) {
		f := func(reason, tool string, hosts ...string) {
			t.Helper()
			program := testProgram()
			program.Egress = &wire.Egress{Tool: tool, Hosts: hosts}
			template, err := o.template(program)
			if reason != "" {
				o.refused(err, reason, api.Unsandboxable)
			} else if err != nil || !slices.Equal(template.Copy.Egress.Hosts, hosts) {
				t.Errorf("%s at %q: %+v, %v", tool, hosts, template.Copy, err)
			}
		}
		o.change(func(p *corev1.Pod) {
			p.ResourceVersion, p.Annotations[KeyPolicy] = "8", `{"grants":"fetch=api.example,10.0.0.5:5432 app.tools:*=b.example:443"}`
		})
		// There is no proxy.
		f(reasonNoEgress, "fetch", "api.example:443")
		o.copies.opts.Egress = true
		f("", "fetch", "api.example:443")
		f("", "fetch", "10.0.0.5:5432", "api.example:443", "api.example:80")
		f("", "app.tools:*", "b.example:443")
		f(reasonNoEgress, "fetch", "api.example:22")
		f(reasonNoEgress, "fetch", "api.example:443", "other.example:443")
		f(reasonNoEgress, "other", "api.example:443")
		// A tool without a host would be kept, and counted, for nothing.
		f(reasonNoEgress, "fetch")
		f(reasonNoEgress, "other")
		f(reasonNoEgress, strings.Repeat("x", 1<<20), "api.example:443")
		// All that is granted, in whatever order; and not the same again and again.
		f("", "fetch", "b.example:443", "api.example:80", "api.example:443", "10.0.0.5:5432")
		f(reasonNoEgress, "fetch", slices.Repeat([]string{"api.example:443"}, 5)...)
		// Another policy, and none.
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Annotations[KeyPolicy] = "9", `{"tools":"enforce"}` })
		f(reasonNoEgress, "fetch", "api.example:443")
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Annotations[KeyPolicy] = "10", `{` })
		f(reasonNoEgress, "fetch", "api.example:443")
	})
}

// While a granted copy runs, the pool is the proxy of what its runner carries,
// and then of nothing more; a copy without a grant is never asked.
func TestCopyEgress(t *testing.T) {
	proxy, err := egress.New(egress.Options{Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(),
		Lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("no such host") }})
	if err != nil {
		t.Fatal(err)
	}
	f := func(e *wire.Egress, asked int, denied string) {
		t.Helper()
		program, ours := net.Pipe()
		calls, ended := 0, make(chan struct{})
		conn := &fakeConn{egress: func(ctx context.Context) (net.Conn, error) {
			switch calls++; calls {
			case 1:
				return nil, errHungUp // the node is busy
			case 2:
				return ours, nil
			}
			<-ctx.Done()
			close(ended)
			return nil, context.Cause(ctx)
		}}
		conn.run = func(context.Context, *wire.Request, wire.Sink) (*wire.Result, error) {
			if e == nil {
				return &wire.Result{Outcome: wire.OK}, nil
			}
			if _, err := io.WriteString(program, "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n"); err != nil {
				t.Error(err)
			}
			said, err := io.ReadAll(program)
			if err != nil || !strings.Contains(string(said), `other.example:80 is not granted to tool "fetch"`) {
				t.Errorf("the proxy said %q, %v", said, err)
			}
			return &wire.Result{Outcome: wire.OK}, nil
		}
		s := &sandbox{id: "sb-1", conn: conn, egress: e, driver: &Driver{opts: Options{Egress: proxy}, roster: newRoster()},
			busy: make(chan struct{}), ended: make(chan struct{})}
		s.entry = s.driver.roster.expect("sb-1", "agents")
		res, err := s.Run(t.Context(), &wire.Request{}, nil)
		if err != nil || strings.Join(res.EgressDenied, " ") != denied {
			t.Errorf("%+v, %v", res, err)
		}
		if calls != asked {
			t.Errorf("the runner was asked %d times", calls)
		}
		if e != nil {
			<-ended
		}
	}
	f(&wire.Egress{Tool: "fetch", Hosts: []string{"api.example:443"}}, 3, "other.example:80")
	f(nil, 0, "")
}
