package load

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine names where and with what the figures were taken.
type Machine struct {
	CPU         string    `json:"cpu"`
	Cores       int       `json:"cores"`
	MemoryBytes uint64    `json:"memory_bytes"`
	Kernel      string    `json:"kernel"`
	Go          string    `json:"go"`
	Python      string    `json:"python"`
	Bubblewrap  string    `json:"bubblewrap"`
	Service     string    `json:"service"`
	LoadBefore  string    `json:"load_before"` // the machine's load averages
	LoadAfter   string    `json:"load_after"`
	Taken       time.Time `json:"taken"`
}

func describeMachine(ctx context.Context, e *Env) Machine {
	m := ThisMachine()
	m.Python, m.Bubblewrap = fmt.Sprintf("%s (%s)", said(ctx, e.Python, "--version"), e.Python), said(ctx, "bwrap", "--version")
	m.Service = said(ctx, e.Binary, "version")
	return m
}

// ThisMachine is described as it is now, before anything is measured.
func ThisMachine() Machine {
	m := Machine{
		CPU: cpuModel(), Cores: runtime.NumCPU(), Go: runtime.Version(), LoadBefore: loadAverage(),
		Taken: time.Now().UTC().Truncate(time.Second),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryBytes = info.Totalram * uint64(info.Unit)
	}
	if b, ok := debug.ReadBuildInfo(); ok {
		m.Go = b.GoVersion
	}
	return m
}

// Done takes note of the load when everything has been measured.
func (m *Machine) Done() { m.LoadAfter = loadAverage() }

func (m Machine) String() string {
	with := ""
	for _, w := range []string{m.Go, m.Python, m.Bubblewrap, m.Service} {
		if w != "" {
			with += ", " + w
		}
	}
	return fmt.Sprintf("%s, %d cores, %d GiB, Linux %s%s; %s; load averages %s before and %s after.",
		m.CPU, m.Cores, (m.MemoryBytes+1<<29)>>30, m.Kernel, with, m.Taken.Format(time.DateOnly), m.LoadBefore, m.LoadAfter)
}

func cpuModel() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(b) {
		if name, value, ok := bytes.Cut(line, []byte(":")); ok && strings.TrimSpace(string(name)) == "model name" {
			return strings.TrimSpace(string(value))
		}
	}
	return runtime.GOARCH
}

func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg")
	f := strings.Fields(string(b))
	if len(f) < 3 {
		return "unknown"
	}
	return strings.Join(f[:3], " ")
}

// said is the first line that a command prints.
func said(ctx context.Context, name string, args ...string) string {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "no " + name
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
