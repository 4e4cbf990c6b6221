package local

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// place is a folder in which this process may be able to make cgroups.
type place struct {
	dir string
	v2  bool
}

// cgroupPlaces lists, best first, our own cgroup and the root of its hierarchy,
// where a controller is.
func cgroupPlaces(controller string) []place {
	own := ownCgroups()
	var places []place
	for _, m := range cgroupMounts(controller) {
		path, ok := own[controller]
		if m.v2 {
			path, ok = own[""]
		}
		if !ok {
			continue
		}
		rel, err := filepath.Rel(m.root, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			rel = "."
		}
		places = append(places, place{filepath.Join(m.point, rel), m.v2})
		if m.v2 && rel != "." && os.Geteuid() == 0 {
			// Version 2 lets no cgroup with processes of its own have limited ones below.
			places = append(places, place{m.point, true})
		}
	}
	return places
}

// sameHierarchy says whether two folders of cgroups are of one hierarchy, however
// often that is mounted.
func sameHierarchy(a, b string) bool {
	var one, other unix.Stat_t
	return unix.Stat(a, &one) == nil && unix.Stat(b, &other) == nil && one.Dev == other.Dev
}

// ownCgroups maps a controller ("" for version 2) to the cgroup we are in.
func ownCgroups() map[string]string {
	own := map[string]string{}
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	return own
}

type cgroupMount struct {
	root, point string
	v2          bool
}

// cgroupMounts finds the hierarchies that have any of some controllers.
func cgroupMounts(controllers ...string) []cgroupMount {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var mounts []cgroupMount
	for lines := bufio.NewScanner(f); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) < 3 {
			continue
		}
		m := cgroupMount{root: left[3], point: left[4], v2: right[0] == "cgroup2"}
		var has []string
		if m.v2 {
			has = words(filepath.Join(m.point, "cgroup.controllers"))
		} else if right[0] == "cgroup" {
			has = strings.Split(right[2], ",")
		}
		if slices.ContainsFunc(controllers, func(c string) bool { return slices.Contains(has, c) }) {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

func words(file string) []string {
	b, _ := os.ReadFile(file)
	return strings.Fields(string(b))
}
