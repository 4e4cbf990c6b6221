package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A worn zygote is replaced beside its runs, and closed when none is left.
func TestZygoteIsRenewed(t *testing.T) {
	d := newDriver(t, nil)
	first, err := d.zygote(t.Context(), template())
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.spawn(t.Context(), first, template())
	if err != nil {
		t.Fatal(err)
	}
	first.release()
	first.mu.Lock()
	first.spawns = zygoteSpawns
	first.mu.Unlock()

	d.zygotesMu.Lock()
	b := d.zygotes[template().Key()]
	d.zygotesMu.Unlock()
	for range zygotesPerTemplate { // one of these finds it worn
		run(t, d, "print(1)")
	}
	b.renew.Wait()
	for i := range b.slots {
		if b.slots[i].zygote == first {
			t.Error("the worn zygote is still used")
		}
	}
	if first.ended() {
		t.Error("the worn zygote has ended under a sandbox of its own")
	}
	if err := s.destroy(); err != nil {
		t.Fatal(err)
	}
	// Its exit may be told a moment later.
	for deadline := time.Now().Add(10 * time.Second); !first.ended() && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		b.sweep()
		b.mu.Unlock()
	}
	if !first.ended() {
		t.Error("the worn zygote was not closed")
	}
}

// Nothing adds up over runs: descriptors are given back, cgroups used again.
func TestNothingIsLeft(t *testing.T) {
	d := newDriver(t, nil)
	f := func(code string) {
		t.Helper()
		run(t, d, code)
		before := openFiles(t)
		for range 30 {
			run(t, d, code)
		}
		if after := openFiles(t); after > before+3 { // the runtime opens some of its own
			t.Errorf("%q: %d descriptors became %d", code, before, after)
		}
		if d.cgroups != nil {
			for _, folder := range d.cgroups.folders() {
				if left, err := filepath.Glob(filepath.Join(folder.dir, "[0-9]*")); err != nil || len(left) > 2 {
					t.Errorf("%q: cgroups %v are left, %v", code, left, err)
				}
			}
		}
	}
	// An end of each kind.
	f("print(1)")
	f("import os; os._exit(3)")
	f("import os, time\nif os.fork() == 0: time.sleep(60)")
	f("open('f', 'w').write('x')")
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestLookPython(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		p, err := LookPython(t.Context(), name)
		switch {
		case want == "" && (err != nil || !filepath.IsAbs(p.Executable) || len(p.Path) == 0 || p.Version == ""):
			t.Errorf("%q: %+v, %v", name, p, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
	f(systemPython, "")
	f("no-such-python", "--python")
	f("/bin/true", "is no Python")
	f("/bin/false", "is no Python")
}

// A brood that is closed while one of its zygotes is being made leaves none.
func TestBroodClosedWhileItMakes(t *testing.T) {
	d := newDriver(t, nil)
	making, goOn := make(chan struct{}), make(chan struct{})
	b := newBrood(1, func(ctx context.Context) (*zygote, error) {
		close(making)
		<-goOn
		return startZygote(ctx, d.opts.Python, d.config(template()), &d.births)
	})
	picked := make(chan *zygote, 1)
	go func() {
		z, err := b.pick(t.Context())
		if err != nil {
			t.Error(err)
		}
		picked <- z
	}()
	<-making
	closed := make(chan struct{})
	go func() {
		b.close()
		close(closed)
	}()
	for !b.isClosed() {
		time.Sleep(time.Millisecond)
	}
	close(goOn)
	z := <-picked
	<-closed
	if z == nil || !z.ended() {
		t.Error("a zygote outlives its brood")
	}
	if _, err := b.pick(t.Context()); !errors.Is(err, errForgotten) {
		t.Errorf("a closed brood gives %v", err)
	}
}
