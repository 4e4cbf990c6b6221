package wire

import (
	"fmt"
	"strconv"
	"time"
)

// Limits bounds one sandbox. Every field must be positive.
type Limits struct {
	MemoryBytes int64 `json:"memory_bytes"` // all processes together, files in memory included
	DiskBytes   int64 `json:"disk_bytes"`   // working directory, /tmp and /dev/shm together
	DiskFiles   int64 `json:"disk_files"`   // files and folders there; zero where their memory alone bounds them
	Processes   int   `json:"processes"`    // processes and threads together
	OpenFiles   int   `json:"open_files"`   // per process
	OutputBytes int   `json:"output_bytes"` // kept of stdout, and again of stderr
	FilesBytes  int64 `json:"files_bytes"`  // content of the files in an answer, all together
	// MaxRun is the longest timeout a run may ask for.
	MaxRun time.Duration `json:"max_run"`
}

// DefaultLimits fit a snippet that a model writes to look at some data.
func DefaultLimits() Limits {
	return Limits{
		MemoryBytes: 512 << 20,
		DiskBytes:   256 << 20,
		DiskFiles:   16384,
		Processes:   128,
		OpenFiles:   512,
		OutputBytes: 256 << 10,
		FilesBytes:  10 << 20,
		MaxRun:      300 * time.Second,
	}
}

// Validate names the first limit that cannot be worked with.
func (l Limits) Validate() error {
	for _, v := range []struct {
		name         string
		value, least int64
		show         func(int64) string
	}{
		{"memory", l.MemoryBytes, 16 << 20, showBytes},
		{"disk", l.DiskBytes, 1 << 20, showBytes},
		{"disk files", least(l.DiskFiles, 64), 64, showNumber},
		{"processes", int64(l.Processes), 4, showNumber},
		{"open files", int64(l.OpenFiles), 32, showNumber},
		{"output", int64(l.OutputBytes), 1 << 10, showBytes},
		{"answer files", l.FilesBytes, 0, showBytes},
		{"run time", int64(l.MaxRun), int64(time.Millisecond), showTime},
	} {
		if v.value < v.least {
			return fmt.Errorf("the limit on %s is %s; the least that works is %s", v.name, v.show(v.value), v.show(v.least))
		}
	}
	return nil
}

func showBytes(n int64) string  { return fmt.Sprintf("%d bytes", n) }
func showNumber(n int64) string { return strconv.FormatInt(n, 10) }
func showTime(n int64) string   { return time.Duration(n).String() }

// least is what a limit that is not there counts as.
func least(limit, least int64) int64 {
	if limit == 0 {
		return least
	}
	return limit
}
