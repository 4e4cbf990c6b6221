package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// State is what is known of a running cluster: enough to use it and to end it.
type State struct {
	Name       string            // of its cgroups
	Work       string            // its folder
	Bin        string            // its programs, as the machine sees them
	Pid        int               // the node's first process
	Started    uint64            // of that process, in clock ticks after boot: a pid alone may be another's
	Namespaces map[string]uint64 // kind to inode of the node's namespaces
	Kubeconfig string
	API        string            // host:port on this machine
	Registry   string            // host:port on this machine, for pushing
	Socks      string            // host:port on this machine; reaches every address of the cluster
	Images     map[string]string // name to reference by digest, as pods pull it
}

func (b *Bed) statePath() string { return filepath.Join(b.work, "state.json") }

// State reads what Up has left. It is an error when there is no cluster.
func (b *Bed) State() (State, error) { return ReadState(b.work) }

// ReadState reads the state of the cluster in the folder.
func ReadState(work string) (State, error) {
	var s State
	raw, err := os.ReadFile(filepath.Join(work, "state.json"))
	if err != nil {
		return State{}, fmt.Errorf("cannot read the state of the cluster: %w", err)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return State{}, fmt.Errorf("cannot read the state of the cluster: %w", err)
	}
	return s, nil
}

// Env is the environment in which programs find the cluster. What kubectl
// would keep in the user's home goes to the cluster's folder.
func (s State) Env() []string {
	return []string{"KUBECONFIG=" + s.Kubeconfig, "KUBECACHEDIR=" + filepath.Join(s.Work, "kubectl"), "CODE_SANDBOX_BED_WORK=" + s.Work}
}

func (b *Bed) writeState(s State) error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("cannot write the state of the cluster: %w", err)
	}
	if err := writeFile(b.statePath(), raw, 0o600); err != nil {
		return fmt.Errorf("cannot write the state of the cluster: %w", err)
	}
	return nil
}

// alive tells whether the node's first process runs, and is the one recorded.
func (s State) alive() bool {
	started, err := startTime(s.Pid)
	return err == nil && started == s.Started
}

// startTime is field 22 of the process's stat, counted after the command,
// which may hold spaces and brackets. A zombie is no process.
func startTime(pid int) (uint64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	after := string(raw)[strings.LastIndexByte(string(raw), ')')+1:]
	fields := strings.Fields(after)
	if len(fields) < 20 {
		return 0, fmt.Errorf("cannot look at process %d: odd stat", pid)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, os.ErrProcessDone)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// ticks is the time since boot, in the unit of startTime: the kernel shows a
// hundred a second to every program.
func ticks() (uint64, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0, fmt.Errorf("cannot tell the time since boot: %w", err)
	}
	return uint64(now.Nano() / 10_000_000), nil
}

// namespaceKinds are those that the node has of its own.
var namespaceKinds = []string{"mnt", "net", "pid", "uts", "ipc"}

func namespacesOf(pid int) (map[string]uint64, error) {
	found := map[string]uint64{}
	for _, kind := range namespaceKinds {
		inode, err := namespaceOf(strconv.Itoa(pid), kind)
		if err != nil {
			return nil, err
		}
		found[kind] = inode
	}
	return found, nil
}

// namespaceOf reads links such as "mnt:[4026531841]".
func namespaceOf(pid, kind string) (uint64, error) {
	link, err := os.Readlink(filepath.Join("/proc", pid, "ns", kind))
	if err != nil {
		return 0, fmt.Errorf("cannot look at a namespace: %w", err)
	}
	_, number, ok := strings.Cut(strings.TrimSuffix(link, "]"), "[")
	if !ok {
		return 0, errors.New("cannot look at a namespace: odd link " + link)
	}
	return strconv.ParseUint(number, 10, 64)
}

// writeFile replaces the file at once: a reader sees the old or the new.
func writeFile(path string, content []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err == nil {
		err = f.Chmod(mode)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
