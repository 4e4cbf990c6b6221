package server

import (
	"slices"
	"strings"
	"testing"
)

// ofContainer is what is mounted in a pod, as containerd and runc make it.
const ofContainer = `1 0 0:90 / / ro,relatime - overlay overlay rw,lowerdir=/l
2 1 0:93 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
3 1 0:94 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
4 3 0:95 / /dev/pts rw,nosuid,noexec,relatime - devpts devpts rw,gid=5
5 3 0:84 / /dev/mqueue rw,nosuid,nodev,noexec,relatime - mqueue mqueue rw
6 1 0:89 / /sys ro,nosuid,nodev,noexec,relatime - sysfs sysfs ro
7 6 0:30 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw
8 1 8:1 /pods/1/etc-hosts /etc/hosts rw,relatime - ext4 /dev/sda1 rw
9 3 8:1 /pods/1/containers/sandbox/1 /dev/termination-log rw,relatime - ext4 /dev/sda1 rw
10 1 8:1 /c/1/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw
11 1 8:1 /c/1/resolv.conf /etc/resolv.conf rw,relatime - ext4 /dev/sda1 rw
12 3 0:80 /shm /dev/shm rw,relatime - tmpfs tmpfs rw,size=262144k
13 1 8:1 /pods/1/volumes/runner /opt/code-sandbox ro,relatime - ext4 /dev/sda1 rw
14 1 0:80 /work /work rw,relatime - tmpfs tmpfs rw,size=262144k
15 1 0:80 /tmp /tmp rw,relatime - tmpfs tmpfs rw,size=262144k
16 2 0:94 /null /proc/kcore rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
17 3 0:5 /null /dev/null rw,nosuid - devtmpfs udev rw
`

// Of what is mounted, what can be written to is told, beside what every container
// has and bounds.
func TestWritableMounts(t *testing.T) {
	f := func(more string, want ...string) {
		t.Helper()
		got, err := parseMountinfo(ofContainer + more)
		if want = append(want, "/tmp", "/work"); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	f("")
	// Volumes that the image declares, twice and one with a blank in its name.
	f("20 1 8:1 /c/1/volumes/a /data rw,relatime - ext4 /dev/sda1 rw\n", "/data")
	f("20 1 8:1 /c/1/volumes/a /data rw - ext4 /dev/sda1 rw\n21 20 8:1 /x /data rw shared:1 - ext4 /dev/sda1 rw\n", "/data")
	f("20 1 8:1 /c/1/volumes/a /my\\040data\\134x rw,relatime master:1 - ext4 /dev/sda1 rw\n", `/my data\x`)
	f("20 3 8:1 /c/1/volumes/a /dev/data rw,relatime - ext4 /dev/sda1 rw\n", "/dev/data")
	// Those that cannot be written to, by either word.
	f("20 1 8:1 /c/1/volumes/a /data ro,relatime - ext4 /dev/sda1 rw\n")
	f("20 1 7:1 / /data rw,relatime - squashfs /dev/loop1 ro\n")
}

// gVisor has its own words for the same.
func TestWritableMountsInGVisor(t *testing.T) {
	got, err := parseMountinfo(`16 15 0:17 / / ro - 9p none ro,trans=fd,rfdno=3,wfdno=3,aname=/,directfs
18 16 0:18 / /dev rw - tmpfs none rw,mode=0755
19 16 0:19 / /sys ro - sysfs none ro,dentry_cache_limit=1000
20 16 0:20 / /tmp rw - tmpfs none rw
21 16 0:21 / /proc rw - proc none rw,dentry_cache_limit=1000
22 16 0:22 / /data rw - 9p none rw,trans=fd,rfdno=4,wfdno=4,aname=/,cache=remote_revalidating,directfs
23 18 0:23 / /dev/pts rw - devpts none rw
`)
	if err != nil || !slices.Equal(got, []string{"/data", "/tmp"}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMountsThatCannotBeRead(t *testing.T) {
	f := func(text string) {
		t.Helper()
		if got, err := parseMountinfo(text); err == nil {
			t.Errorf("%q was taken for %q", text, got)
		}
	}
	f("nonsense\n")
	f("20 1 8:1 / /data rw\n")
	f("20 1 8:1 / /data\\04 rw - ext4 x rw\n")
	f("20 1 8:1 / /data\\999 rw - ext4 x rw\n")
	f(strings.Repeat("20 1 8:1 / /data rw - ext4 x rw\n", maxMounts+1))
	// The machine's own.
	if _, err := writableMounts(); err != nil {
		t.Error(err)
	}
}
