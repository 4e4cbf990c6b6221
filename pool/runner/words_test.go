package runner

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// socketPair is a control socket as sandboxes have it.
func socketPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]net.Conn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "control")
		conns[i], err = net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conns[i].Close() })
	}
	return conns[0], conns[1]
}

// What a program said before it ended is heard, however late the runner's
// reader gets the processor: here, only after the end is known.
func TestLastWordIsHeardLate(t *testing.T) {
	ours, theirs := socketPair(t)
	if err := writeFrame(theirs, record{ExitCode: 7}); err != nil {
		t.Fatal(err)
	}
	r := (&Process{Control: ours}).newRun(wire.DefaultLimits())
	r.words.end()
	go r.readRecord()
	if rec := r.lastRecord(r.records); rec == nil || rec.ExitCode != 7 {
		t.Errorf("the record is %+v", rec)
	}
	// Once only.
	if n, err := r.words.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("then come %d bytes, %v", n, err)
	}
}

// So is what it said at the deadline, though its end is known before that is read.
func TestWordAtTheDeadlineIsHeardLate(t *testing.T) {
	for range 100 { // either may be seen first
		ours, theirs := socketPair(t)
		if err := writeFrame(theirs, record{Dialling: "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		exited := make(chan syscall.WaitStatus, 1)
		exited <- 0
		r := (&Process{Control: ours, Interrupt: func() {}, Exited: exited}).newRun(wire.DefaultLimits())
		go r.readRecord()
		if rec := r.interrupt(r.records); rec == nil || rec.Dialling != "192.0.2.1" {
			t.Fatalf("the record is %+v", rec)
		}
	}
}

// Half a record is none.
func TestHalfAWord(t *testing.T) {
	ours, theirs := socketPair(t)
	if _, err := theirs.Write([]byte("\x00\x00\x00\x10{\"exit")); err != nil {
		t.Fatal(err)
	}
	r := (&Process{Control: ours}).newRun(wire.DefaultLimits())
	go r.readRecord()
	if rec := r.lastRecord(r.records); rec != nil {
		t.Errorf("the record is %+v", rec)
	}
}

// A child that outlives the program holds the socket and both outputs open, and
// says nothing there: the answer does not wait for it.
func TestNobodyWaitsForAChild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, child := net.Pipe()
		defer child.Close()
		defer ours.Close()
		exited := make(chan syscall.WaitStatus, 1)
		exited <- 3 << 8
		killed := false
		out, err := ended(t), ended(t)
		p := &Process{
			Control: ours, Stdout: out, Stderr: err, Exited: exited, Interrupt: func() {},
			Kill: func() { killed = true }, OOMKills: func() bool { return false },
		}
		r := p.newRun(wire.DefaultLimits())
		r.capture(nil)
		go r.readRecord()
		began := time.Now()
		end, failed := r.wait(t.Context(), time.Minute)
		if failed != nil || end.record != nil || end.verdict().exitCode != 3 || !killed {
			t.Errorf("the end is %+v, killed %v, %v", end.verdict(), killed, failed)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited for %s", waited)
		}
	})
}

// ended is an output at its end.
func ended(t *testing.T) *os.File {
	t.Helper()
	r, w := pipe(t)
	w.Close()
	return r
}
