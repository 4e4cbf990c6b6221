// Package local makes sandboxes of Linux namespaces on one machine.
//
// A zygote, one booted interpreter, forks each sandbox (see zygote/*.py); this
// side hands it descriptors, bounds its memory, answers its DNS questions and
// runs its one request.
package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/seccomp"
)

const (
	startBound   = 10 * time.Second // for a sandbox to get ready
	zygoteBound  = 60 * time.Second // for a zygote to import its modules
	destroyBound = 20 * time.Second // for a killed sandbox to be gone, on a machine that has far too much to do
	sandboxNice  = 5                // the service stays responsive beside busy programs
	hostID       = 64000            // first user and group id of programs, outside their namespace
	hostIDs      = 1024             // more than there are sandboxes at once
)

// DNSLookups is how many DNS questions of one run are asked; the rest are refused.
const DNSLookups = 1000

// Namespaces is what a Driver puts around a program.
const Namespaces = "namespaces"

// Options configure a Driver.
type Options struct {
	// Python is the interpreter; see LookPython.
	Python Python
	// MemoryBytes bounds each sandbox: the memory limit of every template.
	MemoryBytes int64
	// FreshInterpreter gives each sandbox an interpreter of its own instead of
	// a fork of the zygote: its own hash seed and address layout, for twice the
	// work per start.
	FreshInterpreter bool
	// Hook is the folder of the tool-call hook (toolproxy/hook/py), which copies
	// are started with. Without it, no copy can be made.
	Hook string
	// Egress serves copies that may reach hosts. Without it, none is made.
	Egress *egress.Proxy
	// NameServers answer lookups, as host:port; nil means the machine's own.
	NameServers []string
	// Without leaves out layers of the isolation by name. It exists for tests
	// that show what each layer stops.
	Without []string
	Logger  hclog.Logger
}

// Driver implements pool.Driver.
type Driver struct {
	opts         Options
	unprivileged bool
	seccomp      string
	relay        *relay
	cgroups      *cgroups // nil where memory is watched instead
	watchdog     *watchdog
	stop         context.CancelFunc
	births       atomic.Uint64 // sandboxes asked for
	background   sync.WaitGroup

	*roster[*sandbox]

	zygotesMu sync.Mutex
	zygotes   map[string]*brood // by template key; nil when closed
	copies    []string          // keys of copies' programs there, the last used last
}

var _ pool.Driver = (*Driver)(nil)

// New makes a driver. It starts nothing yet, but refuses where isolation
// cannot work, and says why and what to do. It ends and removes what a killed
// one, or a killed Bare, has left.
func New(opts Options) (*Driver, error) {
	if err := checkKernel(); err != nil {
		return nil, err
	}
	sweep(opts.Logger)
	servers := opts.NameServers
	if servers == nil {
		servers = nameServers()
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &Driver{
		opts: opts, unprivileged: !mayMount(),
		relay: &relay{
			servers: servers, lookups: new(atomic.Int64),
			plain: slices.Contains(opts.Without, "relay"), unbounded: slices.Contains(opts.Without, "lookups"),
		},
		watchdog: newWatchdog(opts.MemoryBytes), stop: cancel,
		roster: newRoster[*sandbox](), zygotes: map[string]*brood{},
	}
	if err := d.bound(); err != nil {
		cancel()
		return nil, err
	}
	d.background.Go(func() { d.watchdog.run(ctx) })
	return d, nil
}

// bound makes cgroups where they can be made, and the filter of system calls
// that goes with what holds the memory limit.
func (d *Driver) bound() error {
	var err error
	if !d.without("memory") {
		if d.cgroups, err = newCgroups(d.opts.MemoryBytes); err != nil {
			d.opts.Logger.Warn("no memory cgroup can be made: memory is watched instead", "reason", err)
		}
	}
	if d.cgroups != nil && !d.without("cpu") {
		if err = d.cgroups.divideCPU(); err != nil {
			d.opts.Logger.Warn(noShares, "reason", err)
		}
	}
	var more []string
	if d.cgroups == nil {
		more = seccomp.Unmapped()
	}
	program, err := seccomp.Program(runtime.GOARCH, more...)
	d.seccomp = encoded(program)
	return err
}

func (d *Driver) without(layer string) bool { return slices.Contains(d.opts.Without, layer) }

// Isolation names what stands around a program.
func (d *Driver) Isolation() string { return Namespaces }

// MemoryBy says what holds the memory limit: "cgroup", or "watchdog".
func (d *Driver) MemoryBy() string {
	if d.cgroups == nil {
		return "watchdog"
	}
	return "cgroup"
}

// CPUBy says what gives a sandbox its share of the processors: "cgroup", or
// "niceness", which each of its processes has alone.
func (d *Driver) CPUBy() string { return d.cgroups.cpuBy() }

// Lookups is how many DNS questions sandboxes have asked.
func (d *Driver) Lookups() int64 { return d.relay.lookups.Load() }

// Start implements pool.Driver.
func (d *Driver) Start(ctx context.Context, t pool.Template) (pool.Sandbox, error) {
	if t.Limits.MemoryBytes != d.opts.MemoryBytes {
		return nil, fmt.Errorf("the template's memory limit is %d, the driver's %d", t.Limits.MemoryBytes, d.opts.MemoryBytes)
	}
	ctx, cancel := context.WithTimeout(ctx, zygoteBound)
	defer cancel()
	z, err := d.zygote(ctx, t)
	if err != nil {
		return nil, err
	}
	defer z.release()
	if t.Copy == nil { // a copy imports a program: that may take as long as a zygote
		ctx, cancel = context.WithTimeout(ctx, startBound)
		defer cancel()
	}
	s, err := d.spawn(ctx, z, t)
	if e, ok := errors.AsType[*api.Error](err); ok {
		return nil, e // why a copy cannot be had: the caller's to know
	}
	if err != nil {
		return nil, fmt.Errorf("cannot start a sandbox: %w", err)
	}
	if !d.add(s) {
		return nil, errors.Join(errClosed, s.destroy())
	}
	return s, nil
}

// spawn makes one sandbox from the zygote and waits until it is ready.
func (d *Driver) spawn(ctx context.Context, z *zygote, t pool.Template) (*sandbox, error) {
	ends, err := newEnds()
	if err != nil {
		return nil, err
	}
	s := &sandbox{
		id: "sb-" + strings.ToLower(rand.Text()[:20]), driver: d, limits: t.Limits, copy: t.Copy, gone: make(chan struct{}), exited: make(chan syscall.WaitStatus, 1),
		control: ends.control, stdout: ends.stdout, stderr: ends.stderr,
	}
	theirs := ends.theirs[:]
	if d.cgroups != nil {
		if s.cgroup, err = d.cgroups.take(); err != nil {
			ends.closeAll()
			return nil, err
		}
		for _, join := range s.cgroup.joins() {
			theirs = append(theirs, int(join.Fd()))
		}
	}
	s.initFD, s.mainFD, err = z.spawn(ctx, theirs, s.ended)
	ends.closeTheirs()
	if err != nil {
		ends.closeOurs()
		if s.cgroup != nil {
			err = errors.Join(err, s.cgroup.remove()) // the sandbox may still come, and join it
		}
		return nil, err
	}
	err = s.await(ctx)
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.destroy())
	}
	return s, nil
}

// Close ends every sandbox and every zygote, and leaves nothing behind.
func (d *Driver) Close() error {
	d.zygotesMu.Lock()
	broods := d.zygotes
	d.zygotes = nil
	d.zygotesMu.Unlock()
	err := d.closeAll()
	var all sync.WaitGroup
	for _, b := range broods {
		all.Go(b.close)
	}
	all.Wait()
	d.stop()
	d.background.Wait()
	if d.cgroups != nil {
		d.cgroups.close()
	}
	return err
}

// config is what a zygote of template t is told.
func (d *Driver) config(t pool.Template) zygoteConfig {
	c := zygoteConfig{
		Preload: t.Preload, SysPath: d.opts.Python.Path, Paths: rootPaths(d.opts.Python), Python: d.opts.Python.Executable,
		Limits: t.Limits, DNS: t.DNS, Unprivileged: d.unprivileged, HostID: hostID, HostIDs: hostIDs, Nice: sandboxNice,
		Seccomp: d.seccomp, Init: encoded(initELF()), Fresh: d.opts.FreshInterpreter, Without: d.opts.Without,
	}
	if d.cgroups == nil && !d.without("memory") {
		c.AddressSpace = t.Limits.MemoryBytes + 1<<30
	}
	start, err := json.Marshal(map[string]any{"control": 3, "sys_path": c.SysPath, "preload": append([]string{}, t.Preload...)})
	if err != nil {
		panic("BUG: a start argument is not JSON: " + err.Error())
	}
	c.Start = string(start)
	c.Preload = append([]string{}, c.Preload...) // [], not null
	c.Without = append([]string{}, c.Without...)
	c.Masks, c.Links = []string{}, map[string]string{}
	if d.without("root") {
		c.Paths = append(c.Paths, machinePaths()...)
	}
	return c
}
