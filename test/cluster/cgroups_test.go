package cluster

import (
	"reflect"
	"testing"
)

func TestHierarchies(t *testing.T) {
	f := func(mountinfo string, want ...hierarchy) {
		t.Helper()
		if got := hierarchies(mountinfo); !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	const v1 = "30 29 0:24 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	const v2 = "31 29 0:25 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	// version 1, and beside it a tree of version 2 for systemd
	f(v1+v2, hierarchy{root: "/sys/fs/cgroup/cpu,cpuacct"}, hierarchy{root: "/sys/fs/cgroup/unified", v2: true})
	// mounted twice at one place
	f(v2+v2, hierarchy{root: "/sys/fs/cgroup/unified", v2: true})
	// other mounts, some that only sound alike
	f("22 1 8:1 / / rw - ext4 /dev/vda rw\n23 1 0:5 / /sys/fs/cgroup ro - tmpfs cgroup ro\n")
	// not a line of a mount
	f("cgroup\n\n - cgroup")
}
