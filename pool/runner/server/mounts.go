package server

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// maxMounts bounds what is told of a pod's mounts.
const maxMounts = 1000

// ofKernel are file systems that hold nothing of a program's.
var ofKernel = []string{"proc", "sysfs", "cgroup", "cgroup2", "mqueue", "devpts", "devtmpfs"}

// ofPod are mounts that every container has: its root, which the pod's own spec
// makes read-only, the runtime's /dev, and single files of the kubelet's. Of those a
// program can write to one, the message of its end, within the limit on one file.
var ofPod = []string{"/", "/dev", "/dev/shm", "/dev/termination-log", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}

// writableMounts are the folders and files that are mounted to be written to,
// beside what every container has. Those that the pod did not ask for are volumes
// that the image declares: whatever the pod says of its root, a runtime makes them
// on the node's disk, without a bound.
func writableMounts() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read what is mounted: %w", err)
	}
	return parseMountinfo(string(text))
}

// parseMountinfo reads a mountinfo, see proc(5).
func parseMountinfo(text string) (writable []string, err error) {
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		of, by := strings.Fields(head), strings.Fields(tail)
		if !ok || len(of) < 6 || len(by) < 1 {
			return nil, fmt.Errorf("cannot understand what is mounted: %q", line)
		}
		place, err := unescaped(of[4])
		if err != nil {
			return nil, err
		}
		readOnly := slices.Contains(strings.Split(of[5], ","), "ro") || len(by) > 2 && slices.Contains(strings.Split(by[2], ","), "ro")
		inside := strings.HasPrefix(place, "/proc/") || strings.HasPrefix(place, "/sys/")
		if !readOnly && !inside && !slices.Contains(ofKernel, by[0]) && !slices.Contains(ofPod, place) {
			writable = append(writable, place)
		}
	}
	if len(writable) > maxMounts {
		return nil, fmt.Errorf("there are %d mounts that can be written to, over the limit of %d", len(writable), maxMounts)
	}
	slices.Sort(writable)
	return slices.Compact(writable), nil
}

// unescaped is a path of a mountinfo, where some bytes are three octal digits.
func unescaped(p string) (string, error) {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(p, `\`)
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		if len(after) < 3 {
			return "", fmt.Errorf("cannot understand what is mounted at %q", p)
		}
		c, err := strconv.ParseUint(after[:3], 8, 8)
		if err != nil {
			return "", fmt.Errorf("cannot understand what is mounted at %q", p)
		}
		b.WriteByte(byte(c))
		p = after[3:]
	}
}
