package kube

import (
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// grantsOf are what a pod's policy lets its tools reach, of which the injector
// has checked that it can be read: TOOL=HOST[:PORT][,HOST[:PORT]…], by spaces.
func grantsOf(policy map[string]string) (all []wire.Egress) {
	for word := range strings.FieldsSeq(policy[keyGrants]) {
		tool, hosts, _ := strings.Cut(word, "=")
		e := wire.Egress{Tool: tool}
		for host := range strings.SplitSeq(hosts, ",") {
			if places, err := wire.ParseHosts(host); err == nil {
				e.Hosts = append(e.Hosts, places...)
			}
		}
		all = append(all, e)
	}
	return all
}

// granted refuses what a pod's policy does not grant. Which of the pod's grants
// is the tool's its sidecar has decided; none of them is its to make.
func (c *Copies) granted(a *agent, e *wire.Egress) *api.Error {
	if e == nil {
		return nil
	}
	if !c.opts.Egress {
		return api.Errorf(api.Unsandboxable, "this pool has no egress proxy, which the tool is granted").Because(reasonNoEgress)
	}
	var tools, hosts []string
	for _, g := range a.grants {
		tools, hosts = append(tools, g.Tool), append(hosts, g.Hosts...)
	}
	if len(e.Hosts) == 0 || len(e.Hosts) > len(hosts) { // no sidecar asks for that
		return api.Errorf(api.Unsandboxable, "a copy that is granted hosts names each of them once: this one names %d, and the policy of the pod %q grants %d",
			len(e.Hosts), a.pod, len(hosts)).Because(reasonNoEgress)
	}
	has := slices.Contains(tools, e.Tool)
	for _, host := range e.Hosts {
		if !has || !slices.Contains(hosts, host) {
			return api.Errorf(api.Unsandboxable, "the policy of the pod %q grants %.100q nothing at %.300q; its grants are those of the annotation code-sandbox.dev/grants when it was made",
				a.pod, e.Tool, host).Because(reasonNoEgress)
		}
	}
	return nil
}

// serveEgress answers as the program's proxy until the returned function is
// called, which tells the hosts that were denied.
func (s *sandbox) serveEgress() (end func() []string) {
	if s.egress == nil || s.driver.opts.Egress == nil {
		return func() []string { return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	return s.driver.opts.Egress.Serve(&proxied{conn: s.conn, ctx: ctx, cancel: cancel}, s.id, s.egress).Close
}

// leastPause and mostPause are between tries to reach a runner again: its node
// may be busy, or it has ended, and its run with it.
const leastPause, mostPause = 50 * time.Millisecond, time.Second

// proxied is a listener of what the program of one sandbox sends to its proxy.
type proxied struct {
	conn   Conn
	ctx    context.Context
	cancel context.CancelFunc
}

func (p *proxied) Accept() (net.Conn, error) {
	for pause := leastPause; ; pause = min(2*pause, mostPause) {
		conn, err := p.conn.Egress(p.ctx)
		if err == nil {
			return conn, nil
		}
		if !sleep(p.ctx, pause) {
			return nil, net.ErrClosed
		}
	}
}

func (p *proxied) Close() error {
	p.cancel()
	return nil
}

// Addr is nobody's to dial.
func (p *proxied) Addr() net.Addr { return &net.TCPAddr{} }
