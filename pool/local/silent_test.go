package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A zygote that does not answer is replaced; the runs that it has go on, and in
// the end it is killed.
func TestSilentZygoteIsReplaced(t *testing.T) {
	d := newDriver(t, nil)
	first, err := d.zygote(t.Context(), template())
	if err != nil {
		t.Fatal(err)
	}
	defer first.release()
	s, err := d.spawn(t.Context(), first, template())
	if err != nil {
		t.Fatal(err)
	}
	defer s.destroy() // its zygote is killed below
	pid, err := hostPID(s.mainFD)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(int(field(status, "PPid:")), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := d.spawn(ctx, first, template()); err == nil || !strings.Contains(err.Error(), "the zygote does not answer") {
		t.Fatalf("a stopped zygote: %v", err)
	}
	for range 2 * zygotesPerTemplate { // each slot, twice
		run(t, d, "print(1)")
	}
	if first.ended() {
		t.Error("the silent zygote has ended with a sandbox alive in it")
	}
	d.zygotesMu.Lock()
	b := d.zygotes[template().Key()]
	d.zygotesMu.Unlock()
	first.mu.Lock()
	first.longest = 0
	first.mu.Unlock()
	b.mu.Lock()
	b.sweep()
	b.mu.Unlock()
	b.renew.Wait()
	if !first.ended() {
		t.Error("the silent zygote is still there though its runs are over")
	}
}
