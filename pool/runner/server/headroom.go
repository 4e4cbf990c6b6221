package server

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// headroomBytes is more than the runner takes up until it waits for room.
	headroomBytes = 1 << 20
	// roomBound is how long it waits, roomPause how often it looks.
	roomBound = time.Second
	roomPause = 5 * time.Millisecond
)

// headroom is memory of this container's that nobody uses until the interpreter has
// ended. One that the memory limit has ended may hold its memory for a while yet:
// whoever on the node looks into it just then, as ps does, keeps it. The kernel would
// end the next process that wants a page, which is the runner, who has to tell.
type headroom []byte

// newHeadroom is empty only where there is no room for its addresses.
func newHeadroom() headroom {
	h, err := syscall.Mmap(-1, 0, headroomBytes, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANONYMOUS|syscall.MAP_POPULATE)
	if err != nil {
		return nil
	}
	return h
}

// give gives it back, to be had at once.
func (h *headroom) give() {
	if *h != nil {
		_ = syscall.Munmap(*h) // it cannot fail for what was mapped
		*h = nil
	}
}

// touchSignalStack has the first thread take a signal. That of the interpreter's end,
// which it takes too, must not be the first to need the memory of its stack: it comes
// before anything is given back.
func touchSignalStack() {
	pid := syscall.Getpid()
	_ = syscall.Tgkill(pid, pid, syscall.SIGCHLD) // it cannot fail: both are there
}

// awaitRoom waits until a quarter of the container's memory is free, which an answer
// with all its output and files may take. It gives up where files of the program's,
// which are kept in memory, leave less. It takes up next to nothing itself.
func awaitRoom(events string) {
	usage, limit := "memory.usage_in_bytes", "memory.limit_in_bytes"
	if filepath.Base(events) == "memory.events" {
		usage, limit = "memory.current", "memory.max"
	}
	used, err := os.Open(filepath.Join(filepath.Dir(events), usage))
	if err != nil {
		return
	}
	defer used.Close()
	may, err := os.Open(filepath.Join(filepath.Dir(events), limit))
	if err != nil {
		return
	}
	defer may.Close()
	enough := number(may) / 4 * 3
	for deadline := time.Now().Add(roomBound); number(used) > enough && time.Now().Before(deadline); {
		time.Sleep(roomPause)
	}
}

// number is what a file holds, 0 for none.
func number(f *os.File) int64 {
	var b [32]byte
	n, _ := f.ReadAt(b[:], 0)
	value, _ := strconv.ParseInt(string(bytes.TrimSpace(b[:n])), 10, 64)
	return value
}
