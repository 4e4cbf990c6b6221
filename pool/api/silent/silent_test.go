package silent_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api/silent"
)

// Who has asked nothing is closed after the grace; who has asked, or is called
// off in time, is not.
func TestCloseSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns silent.Conns
		isOpen := func(c net.Conn) bool { return c.SetDeadline(time.Time{}) == nil }
		pipe := func() net.Conn {
			a, b := net.Pipe()
			t.Cleanup(func() { _ = errors.Join(a.Close(), b.Close()) })
			conns.Note(a, true)
			return a
		}
		mute, asked := pipe(), pipe()
		conns.Note(asked, false)
		conns.CloseSoon()()
		time.Sleep(2 * silent.Grace)
		if !isOpen(mute) {
			t.Error("closed though it was called off")
		}
		conns.CloseSoon()
		time.Sleep(silent.Grace / 2)
		if !isOpen(mute) {
			t.Error("closed before the grace")
		}
		time.Sleep(silent.Grace)
		if isOpen(mute) || !isOpen(asked) {
			t.Errorf("mute open: %v, asked open: %v", isOpen(mute), isOpen(asked))
		}
	})
}
