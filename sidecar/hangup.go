package sidecar

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvery is how often the connections of runs in flight are looked at; a
// hang-up is seen well within a second.
const pollEvery = 200 * time.Millisecond

// watcher sees callers hang up. fasthttp does not tell, and reading from the
// connection would take bytes of the next, pipelined request; so one goroutine
// asks the kernel whether the other side has shut down, which shows even when
// unread bytes are waiting. A caller that closes only its sending side counts
// as gone too: the kernel cannot tell it from one that closed all.
type watcher struct {
	onHangUp func() // for the metric

	mu    sync.Mutex
	conns map[*watched]struct{}
	some  chan struct{} // holds a token when conns may not be empty
}

type watched struct {
	raw  syscall.RawConn
	gone func()
}

func newWatcher(onHangUp func()) *watcher {
	return &watcher{onHangUp: onHangUp, conns: map[*watched]struct{}{}, some: make(chan struct{}, 1)}
}

// watch calls gone, at most once, when the other side of conn hangs up before
// stop is called. After stop has returned it is not called any more.
func (w *watcher) watch(conn net.Conn, gone func()) (stop func()) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return func() {} // a connection in memory, in a test
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() {} // closed already: the answer will not be read
	}
	c := &watched{raw: raw, gone: gone}
	w.mu.Lock()
	w.conns[c] = struct{}{}
	w.mu.Unlock()
	select {
	case w.some <- struct{}{}:
	default:
	}
	return func() {
		w.mu.Lock()
		delete(w.conns, c)
		w.mu.Unlock()
	}
}

// run looks at the connections until ctx ends. It sleeps when there are none.
func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if w.look() == 0 {
			select {
			case <-w.some:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// look reports hang-ups and says how many connections are left. It holds the
// lock while it calls, so that stop is a promise; gone must not block.
func (w *watcher) look() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		if hungUp(c.raw) {
			delete(w.conns, c)
			w.onHangUp()
			c.gone()
		}
	}
	return len(w.conns)
}

// hungUp asks the kernel; it consumes nothing and does not wait. Control keeps
// the descriptor from being closed and reused meanwhile.
func hungUp(raw syscall.RawConn) bool {
	gone := false
	err := raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0 && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR) != 0
	})
	return gone || err != nil
}
