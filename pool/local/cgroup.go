package local

import (
	"errors"
	"sync"
	"sync/atomic"
)

// cgroups makes a cgroup per sandbox: one that bounds its memory and, where
// there can be one, one in which it has its share of the processors. They are
// below a folder of this service in each hierarchy that has them. Both versions
// of the kernel's interface are served.
type cgroups struct {
	*cgroupFolder       // of those that bound memory
	memory        int64 // limit in bytes
	// cpu is the folder of those that divide the processors: the same one where
	// one hierarchy has both, nil where there is none.
	cpu  *cgroupFolder
	last atomic.Uint64

	mu    sync.Mutex
	spare []*cgroup // empty ones, to be used again
}

const (
	maxSpare    = 32         // empty cgroups kept
	socketBytes = "67108864" // buffers of TCP and UDP sockets, in version 1
	// spareUse is what may still be charged to an empty cgroup that is used
	// again, in bytes: the kernel takes shared memory apart after its last
	// process has gone, and files read stay charged to their first reader.
	spareUse = 4 << 20
)

// newCgroups finds a place where memory cgroups can be made. An error says why
// there is none; memory is then watched instead.
func newCgroups(memory int64) (*cgroups, error) {
	var reasons []error
	for _, place := range cgroupPlaces("memory") {
		c, err := newCgroupsIn(place, memory)
		if err == nil {
			return c, nil
		}
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return nil, errors.New("no memory cgroup is mounted")
	}
	return nil, errors.Join(reasons...)
}

func newCgroupsIn(p place, memory int64) (*cgroups, error) {
	folder, err := newCgroupFolder(p, "memory")
	if err != nil {
		return nil, err
	}
	c := &cgroups{cgroupFolder: folder, memory: memory}
	if err := c.try(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// divideCPU gives each sandbox from now on an equal share of the processors,
// whatever it forks. An error says why that cannot be; a program with many
// processes then takes more than others.
func (c *cgroups) divideCPU() error {
	var reasons []error
	for _, place := range cgroupPlaces("cpu") {
		err := c.divideCPUIn(place)
		if err == nil {
			return nil
		}
		reasons = append(reasons, err)
	}
	if len(reasons) == 0 {
		return errors.New("no CPU cgroup is mounted")
	}
	return errors.Join(reasons...)
}

// divideCPUIn does so in one hierarchy. Where that is the one in which memory is
// bounded, it must be by the same cgroups: a process has one place in a hierarchy.
func (c *cgroups) divideCPUIn(p place) error {
	if sameHierarchy(p.dir, c.dir) {
		if c.v2 {
			if err := c.enable("cpu"); err != nil {
				return err
			}
		}
		if err := c.weigh(); err != nil {
			return err
		}
		c.cpu = c.cgroupFolder
		return nil
	}
	folder, err := newCgroupFolder(p, "cpu")
	if err != nil {
		return err
	}
	c.cpu = folder
	if err := errors.Join(folder.weigh(), c.try()); err != nil {
		c.cpu = nil
		folder.close()
		return err
	}
	return nil
}

// try makes one sandbox's cgroups, has a process join them, which not every one
// allows, and takes them away again.
func (c *cgroups) try() error {
	g, err := c.make()
	if err != nil {
		return err
	}
	return errors.Join(g.admits(), g.remove())
}

// take gives an empty cgroup. Making and removing one costs the kernel as much
// as a fork, so one serves many sandboxes, one after the other.
func (c *cgroups) take() (*cgroup, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) == 0 {
		return c.make()
	}
	g := c.spare[0]
	c.spare = c.spare[1:]
	if g.used() <= spareUse {
		return g, nil
	}
	if err := g.remove(); err != nil {
		return nil, err
	}
	return c.make()
}

// giveBack takes a cgroup in which nothing lives any more. One whose limit was
// reached is not used again: the kernel's count of that never goes back.
func (c *cgroups) giveBack(g *cgroup) error {
	if g.oomKills() {
		return g.remove()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) == maxSpare {
		return g.remove()
	}
	c.spare = append(c.spare, g)
	return nil
}

// close takes everything away. What it cannot, the next service does.
func (c *cgroups) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range c.spare {
		_ = g.remove()
	}
	c.spare = nil
	for _, f := range c.folders() {
		f.close()
	}
}

// folders are those of this service, one in each hierarchy.
func (c *cgroups) folders() []*cgroupFolder {
	if c.cpuApart() {
		return []*cgroupFolder{c.cgroupFolder, c.cpu}
	}
	return []*cgroupFolder{c.cgroupFolder}
}

// cpuApart says whether the processors are divided in another hierarchy.
func (c *cgroups) cpuApart() bool { return c.cpu != nil && c.cpu != c.cgroupFolder }

// cpuBy says what divides the processors: see Driver.CPUBy.
func (c *cgroups) cpuBy() string {
	if c == nil || c.cpu == nil {
		return "niceness"
	}
	return "cgroup"
}

// noShares warns at a start.
const noShares = "no CPU cgroup can be made: a program with many processes takes more than its share of the processors"
