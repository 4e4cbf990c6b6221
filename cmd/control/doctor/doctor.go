// Package doctor looks whether a sandbox protects what it should, by trying:
// programs in sandboxes of the service at hand dial, write, read and take what
// they must not. It needs no right and no client of the cluster: it is an agent
// like any other, and asks its sidecar.
package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// Service runs programs, each in a sandbox of its own.
type Service interface {
	Limits(ctx context.Context) (Limits, error)
	Run(ctx context.Context, code string, args []string) (*wire.Result, error)
}

// Limits are what doctor needs of GET /limits.
type Limits struct {
	Isolation    string `json:"isolation"`
	Network      string `json:"network"`
	NetworkProof string `json:"network_proof"`
	MemoryBytes  int64  `json:"memory_bytes"`
	DiskBytes    int64  `json:"disk_bytes"`
	Processes    int    `json:"processes"` // zero where only the node knows
}

// Target is something that no sandbox may reach, at any of its addresses.
type Target struct {
	Name      string
	Addresses []string // HOST:PORT
	// Missing says why there is no address, and what to set.
	Missing string
	Change  string // what to do when it is reached
}

// Options configures an examination. Service and Dial are required.
type Options struct {
	Service Service
	// Dial reaches an address from where doctor is, which shows that it is alive.
	Dial    func(ctx context.Context, address string) error
	Targets []Target
	// Lookup is a name that doctor itself finds; empty if it finds none.
	Lookup string
	// Resolvers are those that pods of this cluster are given.
	Resolvers []string
	// Patience bounds the wait for the service to know its pool.
	Patience time.Duration
}

// mostThreads is how many a sandbox may have at once before nothing is taken to
// bound them, where the bound is the node's. The kubelet's is far below.
const mostThreads = 5000

// Examine tries everything. An error means that there is no service to ask;
// what could not be tried in it is told as not protected.
func Examine(ctx context.Context, o Options) (*Report, error) {
	l, err := o.limits(ctx)
	if err != nil {
		return nil, err
	}
	r := &Report{Isolation: l.Isolation}
	r.add(o.network(ctx)...)
	r.add(o.inside(ctx, l)...)
	r.add(memory(ctx, o.Service, l), processes(ctx, o.Service, l), disk(ctx, o.Service, l), proof(l))
	return r, ctx.Err()
}

// limits waits until the service has heard of its pool: before, it knows no
// limits that could be exceeded.
func (o Options) limits(ctx context.Context) (Limits, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	for {
		l, err := o.Service.Limits(ctx)
		if err == nil && l.Isolation != "" {
			return l, nil
		}
		if err == nil {
			err = errors.New("the service does not know the limits of its sandboxes: its pool has not answered")
		}
		select {
		case <-ctx.Done():
			return l, err
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// proof repeats what an operator has switched off.
func proof(l Limits) Row {
	row := Row{Name: "closed before code"}
	switch l.NetworkProof {
	case "on":
		row.protected("each sandbox shows that it reaches nobody before it gets a program")
	case "off":
		row.open("network.proof is false: nobody looks whether a fresh sandbox is closed yet", "set network.proof=true")
	default:
		row.none("sandboxes here have no network that could be open")
	}
	return row
}
