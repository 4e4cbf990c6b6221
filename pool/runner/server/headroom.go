package server

import "syscall"

// headroomBytes is more than the runner takes up while it tells how a run ended.
const headroomBytes = 1 << 20

// headroom is memory of this container's that nobody uses until the interpreter has
// ended. One that the memory limit has ended may hold its memory for a while yet:
// whoever on the node looks into it just then, as ps does, keeps it. The kernel would
// end the next process that wants a page, which is the runner, who has to tell.
type headroom []byte

// newHeadroom is empty where there is none to be had, which the limit will tell.
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
