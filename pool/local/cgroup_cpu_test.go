package local

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool"
)

// cpuDirOf is the cgroup in which a sandbox has its share of the processors.
func cpuDirOf(g *cgroup) string { return g.dirs()[len(g.dirs())-1] }

// weightOf is the weight of a cgroup beside others, as a part of the default.
func weightOf(t *testing.T, dir string) float64 {
	t.Helper()
	for name, usual := range map[string]float64{"cpu.shares": 1024, "cpu.weight": 100} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
			weight, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
			if err != nil {
				t.Fatal(err)
			}
			return weight / usual
		}
	}
	t.Fatalf("%s has no weight", dir)
	return 0
}

// Each sandbox is alone in a cgroup that weighs as much as any other, whatever
// it is made of; all of them are in one that weighs as much for each processor.
func TestEverySandboxHasItsShare(t *testing.T) {
	f := func(d pool.Driver, folder *cgroups, from pool.Template, of func(pool.Sandbox) (*cgroup, int)) {
		t.Helper()
		if folder.cpuBy() != "cgroup" {
			t.Logf("nothing to test: the processors are divided by %s here", folder.cpuBy())
			return
		}
		most := 256.0
		if folder.cpu.v2 {
			most = 100
		}
		if w := weightOf(t, folder.cpu.dir); w != min(float64(runtime.GOMAXPROCS(0)), most) {
			t.Errorf("all sandboxes together weigh %v", w)
		}
		var dirs []string
		for range 3 {
			s, err := d.Start(t.Context(), from)
			if err != nil {
				t.Fatal(err)
			}
			g, pid := of(s)
			dir := cpuDirOf(g)
			if filepath.Dir(dir) != folder.cpu.dir || slices.Contains(dirs, dir) {
				t.Errorf("the cgroups of sandboxes: %s after %v, in %s", dir, dirs, folder.cpu.dir)
			}
			dirs = append(dirs, dir)
			members := (&tree{cgroup: &cgroup{dir: dir}}).cgroupMembers()
			if len(members) != 1 || !members[pid] {
				t.Errorf("process %d is not alone in its cgroup: %v", pid, members)
			}
			if w := weightOf(t, dir); w != 1 {
				t.Errorf("a sandbox weighs %v", w)
			}
		}
	}
	isolated := func(s pool.Sandbox) (*cgroup, int) {
		one := s.(*sandbox)
		pid, err := hostPID(one.mainFD)
		if err != nil {
			t.Fatal(err)
		}
		return one.cgroup, pid
	}
	// A fork of the zygote.
	d := newDriver(t, func(o *Options) { o.Hook = hookFolder(t) })
	f(d, d.cgroups, template(), isolated)
	// A copy for tool calls.
	f(d, d.cgroups, copyOf(t, d, project(t, map[string]string{"tools.py": tools}), "tools", "add", lineOf("add")), isolated)
	// An interpreter of its own.
	d = newDriver(t, func(o *Options) { o.FreshInterpreter = true })
	f(d, d.cgroups, template(), isolated)
	// One without isolation.
	b := newBare(t)
	f(b, b.cgroups, template(), func(s pool.Sandbox) (*cgroup, int) {
		one := s.(*bareSandbox)
		return one.cgroup, one.cmd.Process.Pid
	})
}

// Where there can be no CPU cgroup, that is told, nothing is left of the try,
// and memory is bounded as before.
func TestNoCPUCgroup(t *testing.T) {
	c, err := newCgroups(64 << 20)
	if err != nil {
		t.Logf("nothing to test: memory is watched here, since %v", err)
		return
	}
	defer c.close()
	f := func(v2 bool) {
		t.Helper()
		dir := t.TempDir() // in no hierarchy
		if err := c.divideCPUIn(place{dir, v2}); err == nil {
			t.Error("a plain folder divides the processors")
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
		if by := c.cpuBy(); by != "niceness" {
			t.Errorf("the processors are said to be divided by %s", by)
		}
		g, err := c.take()
		if err != nil {
			t.Fatal(err)
		}
		if len(g.joins()) != 1 {
			t.Errorf("a sandbox has cgroups %v", g.dirs())
		}
		if err := c.giveBack(g); err != nil {
			t.Error(err)
		}
	}
	f(false)
	f(true)
}

// Where one hierarchy has both, a sandbox is not moved out of the cgroup that bounds
// its memory.
func TestSharesInTheHierarchyOfMemory(t *testing.T) {
	c, err := newCgroups(64 << 20)
	if err != nil {
		t.Logf("nothing to test: memory is watched here, since %v", err)
		return
	}
	defer c.close()
	parent := filepath.Dir(c.dir)
	before, err := filepath.Glob(filepath.Join(parent, "*"))
	if err != nil {
		t.Fatal(err)
	}
	// This one may have no processors to divide.
	if err := c.divideCPUIn(place{parent, c.v2}); (err == nil) != (c.cpu == c.cgroupFolder) {
		t.Errorf("the processors are divided elsewhere: %v", err)
	}
	after, err := filepath.Glob(filepath.Join(parent, "*"))
	if err != nil || len(after) > len(before) || c.cpuApart() {
		t.Errorf("there is a second folder: %v, %v", after, err)
	}
	for _, m := range cgroupMounts("cpu") {
		if is := sameHierarchy(m.point, c.dir); is != strings.HasPrefix(c.dir, m.point+"/") {
			t.Errorf("%s and %s are of one hierarchy: %v", m.point, c.dir, is)
		}
	}
}

// As root on a machine with a CPU controller there are shares: the other tests of
// them would have nothing to test.
func TestSharesWhereTheyCanBe(t *testing.T) {
	for _, m := range cgroupMounts("cpu") {
		dir, err := os.MkdirTemp(m.point, "possible-")
		if err != nil {
			continue
		}
		defer os.Remove(dir)
		if _, err := os.Stat(filepath.Join(dir, "cpu.shares")); m.v2 || err != nil {
			continue // version 2 may keep it from those below
		}
		if by := newDriver(t, nil).CPUBy(); by != "cgroup" {
			t.Errorf("the processors are divided by %s, though %s can be made", by, dir)
		}
		return
	}
}

// A driver that is told to leaves the layer out.
func TestSharesAreLeftOut(t *testing.T) {
	d := newDriver(t, func(o *Options) { o.Without = []string{"cpu"} })
	if by := d.CPUBy(); by != "niceness" {
		t.Errorf("the processors are divided by %s", by)
	}
	if res := run(t, d, "print(1)"); res.Stdout != "1\n" {
		t.Errorf("%+v", res)
	}
}
