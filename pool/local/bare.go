package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// BareIsolation is what Bare puts around a program.
const BareIsolation = "none"

// BareOptions configure a Bare.
type BareOptions struct {
	// Python is the interpreter; see LookPython.
	Python Python
	// MemoryBytes bounds each sandbox: the memory limit of every template.
	MemoryBytes int64
	Logger      hclog.Logger
}

// Bare implements pool.Driver without any isolation, for machines where there
// cannot be any and for programs that are trusted as their author is.
//
// A sandbox is an interpreter of its own in a folder of its own, used once. It
// has the rights of this process: it reads and writes this user's files, reaches
// the network, and sees and can end every process of this user. What holds are
// timeouts, the caps on output and files, the memory limit (of all processes
// where a cgroup can be made, of each process otherwise), and the size of one
// file and the number of open files. Processes, and files altogether, have no
// bound.
//
// At its end, everything is killed that is of its session, descends from it, has
// its environment, or is in its cgroup. Without a cgroup, a process that leaves
// its session, its parent and its environment behind is not found.
type Bare struct {
	opts     BareOptions
	folder   *bareFolder
	program  *os.File // the bootstrap, in memory
	cgroups  *cgroups // nil where none can be made
	watchdog *watchdog
	starts   chan func()

	stop       context.CancelFunc
	stopped    <-chan struct{}
	background sync.WaitGroup

	*roster[*bareSandbox]
}

var _ pool.Driver = (*Bare)(nil)

// NewBare makes a driver. It ends and removes what a killed one, or a killed
// Driver, has left.
func NewBare(opts BareOptions) (*Bare, error) {
	sweep(opts.Logger)
	folder, err := newBareFolder(os.TempDir())
	if err != nil {
		return nil, err
	}
	program, err := bareProgram()
	if err == nil {
		err = keepInherited()
	}
	if err != nil {
		return nil, errors.Join(err, folder.remove())
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &Bare{
		opts: opts, folder: folder, program: program, watchdog: newWatchdog(opts.MemoryBytes),
		starts: make(chan func()), stop: cancel, stopped: ctx.Done(),
		roster: newRoster[*bareSandbox](),
	}
	if d.cgroups, err = newCgroups(opts.MemoryBytes); err != nil {
		opts.Logger.Warn("no memory cgroup can be made: memory is bounded for each process alone", "reason", err)
	} else if err = d.cgroups.divideCPU(); err != nil {
		opts.Logger.Warn(noShares, "reason", err)
	}
	d.background.Go(func() { d.watchdog.run(ctx) })
	d.background.Go(d.starter)
	return d, nil
}

// starter starts all interpreters from one thread, which lives as long as this
// process: the parent-death signal follows the thread.
func (d *Bare) starter() {
	runtime.LockOSThread()
	for {
		select {
		case start := <-d.starts:
			start()
		case <-d.stopped:
			runtime.UnlockOSThread()
			return
		}
	}
}

// Isolation names what stands around a program: nothing.
func (d *Bare) Isolation() string { return BareIsolation }

// MemoryBy says what holds the memory limit: "cgroup", or "rlimit" for each
// process alone.
func (d *Bare) MemoryBy() string {
	if d.cgroups == nil {
		return "rlimit"
	}
	return "cgroup"
}

// CPUBy says what gives a sandbox its share of the processors: "cgroup", or
// "niceness", which each of its processes has alone.
func (d *Bare) CPUBy() string { return d.cgroups.cpuBy() }

// Start implements pool.Driver.
func (d *Bare) Start(ctx context.Context, t pool.Template) (pool.Sandbox, error) {
	if t.Copy != nil {
		return nil, api.Errorf(api.Unsandboxable, "tool calls need an isolation: start the service without --isolation=none").Because("no_isolation")
	}
	if t.Limits.MemoryBytes != d.opts.MemoryBytes {
		return nil, fmt.Errorf("the template's memory limit is %d, the driver's %d", t.Limits.MemoryBytes, d.opts.MemoryBytes)
	}
	ctx, cancel := context.WithTimeout(ctx, zygoteBound)
	defer cancel()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("cannot start a sandbox: %w", err)
	}
	s, err := d.spawn(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("cannot start a sandbox: %w", err)
	}
	if !d.add(s) {
		return nil, errors.Join(errClosed, s.destroy())
	}
	return s, nil
}

// Close ends every sandbox and removes their folders.
func (d *Bare) Close() error {
	err := d.closeAll()
	d.stop()
	d.background.Wait()
	if d.cgroups != nil {
		d.cgroups.close()
	}
	return errors.Join(err, d.program.Close(), d.folder.remove())
}
