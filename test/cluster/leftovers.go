package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Surroundings is what the machine looks like where a cluster could leave
// something: its interfaces, routes and rules, settings of the whole machine,
// mounts, and folders that the cluster's programs use on other machines.
type Surroundings map[string][]string

var usualFolders = []string{
	"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/lib/etcd", "/var/log/pods", "/var/log/containers",
	"/run/containerd", "/run/netns", "/run/runc", "/run/runsc", "/run/cni-ipam", "/run/bed", "/opt/containerd", "/opt/cni", "/etc/cni",
	"/etc/kubernetes",
}

// LookAround takes note of the machine. Compare two of them.
func LookAround() (Surroundings, error) {
	around := Surroundings{}
	for what, args := range map[string][]string{
		"link": {"ip", "-o", "-br", "link"}, "address": {"ip", "-o", "-br", "addr"},
		"route": {"ip", "route", "show", "table", "all"}, "rule": {"ip", "rule"}, "packet filter": {"nft", "list", "tables"},
	} {
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil && !errors.Is(err, exec.ErrNotFound) { // a new machine may lack them before the cluster is up
			return nil, fmt.Errorf("cannot run %q: %w", args, err)
		}
		around[what] = lines(out)
	}
	for name := range shownSettings {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			around["setting"] = append(around["setting"], name+"="+strings.TrimSpace(string(value)))
		}
	}
	folders := slices.Clone(usualFolders)
	if home, err := os.UserHomeDir(); err == nil {
		folders = append(folders, filepath.Join(home, ".kube"))
	}
	for _, dir := range folders {
		if _, err := os.Lstat(dir); err == nil {
			around["folder"] = append(around["folder"], dir)
		}
	}
	return around, nil
}

// changing is what the machine counts down by itself.
var changing = regexp.MustCompile(`\b(expires|valid_lft|preferred_lft) \S+`)

func lines(out []byte) []string {
	var found []string
	for line := range strings.Lines(string(out)) {
		line = strings.Join(strings.Fields(changing.ReplaceAllString(line, "")), " ")
		if line != "" {
			found = append(found, line)
		}
	}
	return found
}

// linger is how long an interface may outlive the last process of its
// namespace.
const linger = 2 * time.Second

// Leftovers names everything that is left of a cluster that is down: its
// processes, namespaces, mounts, cgroups and files, and whatever the machine
// has now and had not before.
func (b *Bed) Leftovers(s State, before Surroundings) ([]string, error) {
	var left []string
	for end := time.Now().Add(linger); ; time.Sleep(100 * time.Millisecond) {
		now, err := LookAround()
		if err != nil {
			return nil, err
		}
		left = slices.Concat(now.since(before), b.processesOf(s))
		if len(left) == 0 || time.Now().After(end) {
			break
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, s.Work) || strings.Contains(line, s.Name) || strings.Contains(line, "/run/bed") {
			left = append(left, "mount "+strings.TrimSpace(line))
		}
	}
	for _, h := range hierarchies(string(mounts)) {
		left = append(left, cgroupsNamed(h.root, s.Name)...)
	}
	if _, err := os.Lstat(s.Work); !errors.Is(err, fs.ErrNotExist) {
		left = append(left, "folder "+s.Work)
	}
	return left, nil
}

// since are the things that are new or different.
func (s Surroundings) since(before Surroundings) []string {
	var found []string
	for what, list := range s {
		if len(before[what]) == 0 && what == "packet filter" {
			continue
		}
		for _, item := range list {
			if !slices.Contains(before[what], item) {
				found = append(found, what+" "+item)
			}
		}
	}
	return found
}

// processesOf are processes in one of the cluster's namespaces, cgroups or
// folders, or that have its folder in their arguments.
func (b *Bed) processesOf(s State) []string {
	var found []string
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if why := b.belongs(pid, s); why != "" {
			command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			found = append(found, fmt.Sprintf("process %d: %s: %q", pid, why, strings.ReplaceAll(string(command), "\x00", " ")))
		}
	}
	return found
}

func (b *Bed) belongs(number int, s State) string {
	pid := strconv.Itoa(number)
	// The kernel gives the numbers of namespaces that are gone to new ones.
	started, err := startTime(number)
	later := err == nil && b.ended > 0 && started > b.ended
	for kind, inode := range s.Namespaces {
		if is, err := namespaceOf(pid, kind); err == nil && is == inode && !later {
			return "in the cluster's " + kind + " namespace"
		}
	}
	if cwd, err := os.Readlink(filepath.Join("/proc", pid, "cwd")); err == nil && strings.HasPrefix(cwd, s.Work+"/") {
		return "in the folder " + cwd
	}
	if command, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline")); err == nil && strings.Contains(string(command), s.Work+"/") {
		return "started with the cluster's folder"
	}
	groups, err := os.ReadFile(filepath.Join("/proc", pid, "cgroup"))
	if err == nil && strings.Contains(string(groups), s.Name) {
		return "in the cluster's cgroup"
	}
	return ""
}

func cgroupsNamed(root, name string) []string {
	var found []string
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), name) {
			found = append(found, "cgroup "+path)
		}
		return nil
	})
	return found
}
