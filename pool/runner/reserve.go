package runner

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// reserved is how many files a Reserve holds open.
const reserved = 32

// Reserve is open files to be given up where no other can be opened. In gVisor a
// file that is known takes one to three descriptors of the kernel's own process,
// which may have so many: a program that makes a chain of thousands of folders
// uses them up, and they stay so when it is dead.
type Reserve struct{ files []*os.File }

// NewReserve makes one in a folder, in which nothing of it can be seen.
func NewReserve(folder string) (*Reserve, error) {
	r := &Reserve{}
	for range reserved {
		f, err := os.CreateTemp(folder, ".reserve-*")
		if err == nil {
			r.files = append(r.files, f)
			err = os.Remove(f.Name())
		}
		if err != nil {
			r.giveUp()
			return nil, fmt.Errorf("cannot keep files in reserve: %w", err)
		}
	}
	return r, nil
}

// giveUp says whether there was anything to give up.
func (r *Reserve) giveUp() bool {
	if r == nil || len(r.files) == 0 {
		return false
	}
	for _, f := range r.files {
		f.Close()
	}
	r.files = nil
	return true
}

// withSpare opens something, at the expense of the reserve where there is
// nothing else.
func withSpare[T any](c *collector, open func() (T, error)) (T, error) {
	opened, err := open()
	if errors.Is(err, syscall.EMFILE) && c.spare.giveUp() {
		c.tight = true
		return open()
	}
	return opened, err
}

func (c *collector) open(name string) (*os.File, error) {
	return withSpare(c, func() (*os.File, error) { return c.root.Open(name) })
}

// drop removes what was read, where the next cannot be opened otherwise: nobody
// else looks at it any more. A folder that holds something yet stays.
func (c *collector) drop(name string) {
	if c.tight {
		_ = c.root.Remove(name)
	}
}
