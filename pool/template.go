package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// Template is what a sandbox is made from. Two equal templates make
// interchangeable sandboxes; Key tells them apart.
type Template struct {
	// Image names the software inside: a digest on a cluster, empty on one
	// machine, where the driver's own interpreter is the image.
	Image string `json:"image,omitempty"`
	// Preload names Python modules imported before the sandbox is ready.
	Preload []string `json:"preload,omitempty"`
	Limits  Limits   `json:"limits"`
	// DNS is "relay" (lookups are answered) or "none".
	DNS string `json:"dns"`
}

// Limits bounds one sandbox. Every field must be positive.
type Limits struct {
	MemoryBytes int64 `json:"memory_bytes"` // all processes together, files in memory included
	DiskBytes   int64 `json:"disk_bytes"`   // working directory, /tmp and /dev/shm together
	DiskFiles   int64 `json:"disk_files"`   // files and folders there
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

// Key is a hash over all of the template.
func (t Template) Key() string {
	b, err := json.Marshal(t)
	if err != nil {
		panic("BUG: a template is not JSON: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
