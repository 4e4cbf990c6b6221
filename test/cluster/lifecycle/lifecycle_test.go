//go:build e2e

package lifecycle

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

const patience = 3 * time.Minute

// A cluster is started from Go beside the one that runs already. Up again
// changes nothing; when somebody has killed all of it, down leaves nothing;
// and up again makes a new one.
func TestUpAndDown(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	bed, err := cluster.New(cluster.Options{Work: filepath.Join(t.TempDir(), "second"), Cache: os.Getenv("CODE_SANDBOX_BED_CACHE"),
		Log: hclog.New(&hclog.LoggerOptions{Output: testLog{t}})})
	if err != nil {
		t.Fatal(err)
	}
	before, err := cluster.LookAround()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Down(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	first, err := bed.Up(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := bed.Up(ctx); err != nil || again.Pid != first.Pid {
		t.Fatalf("up again made process %d of %d: %v", again.Pid, first.Pid, err)
	}
	for _, pid := range members(t, first) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some are gone by the time their turn comes
	}
	if left, err := bed.Leftovers(first, before); err != nil || len(left) == 0 {
		t.Fatalf("the check for what is left finds nothing of a cluster that was killed, not even its folder: %v", err)
	}
	second, err := bed.Up(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if second.Pid == first.Pid {
		t.Fatal("up after a kill made no new node")
	}
	if err := bed.Down(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range []cluster.State{first, second} {
		left, err := bed.Leftovers(s, before)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
	if err := bed.Down(ctx); err != nil {
		t.Errorf("down again: %v", err)
	}
}

// members are the processes of the cluster, with its first one last.
func members(t *testing.T, s cluster.State) []int {
	t.Helper()
	var found []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == s.Pid {
			continue
		}
		var is syscall.Stat_t
		if syscall.Stat(filepath.Join("/proc", e.Name(), "ns/mnt"), &is) == nil && is.Ino == s.Namespaces["mnt"] {
			found = append(found, pid)
		}
	}
	if len(found) < 8 {
		t.Fatalf("the cluster has only the processes %d", found)
	}
	return append(found, s.Pid)
}

// testLog writes to the log of the test.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("%s", b)
	return len(b), nil
}
