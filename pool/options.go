package pool

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configures a Pool. A field that is zero has the default named with
// it.
type Options struct {
	// Driver makes the sandboxes. Required.
	Driver Driver
	// Templates are kept warm from the start and never drained. Others are
	// kept warm from their first use until nobody has used them for
	// TemplateIdle. MaxTemplates (32) bounds them all.
	Templates    []Template
	TemplateIdle time.Duration // 10 minutes
	MaxTemplates int

	// Target (3) is how many sandboxes of each template are kept warm at
	// least; demand raises it up to MaxTarget (32, or Max when that is less).
	Target    int
	MaxTarget int
	// Max (64) bounds the sandboxes in existence: warm, starting, leased and
	// being destroyed. MaxStarting (8) and MaxDestroying (8) bound how many
	// are made and destroyed at once.
	Max           int
	MaxStarting   int
	MaxDestroying int

	// QueueLimit (256) bounds how many callers wait for a sandbox,
	// QueuePerCaller (64) how many of one caller, MaxWait (30 s) for how long.
	QueueLimit     int
	QueuePerCaller int
	MaxWait        time.Duration
	// InFlightPerCaller bounds the runs one caller has at once, those that
	// wait included. Zero is no bound.
	InFlightPerCaller int
	// OwnedPerCaller (16) and OwnedPerTenant (32) bound the sandboxes in existence
	// that are for one owner alone, and for all owners of a tenant.
	OwnedPerCaller, OwnedPerTenant int
	// TemplatesPerCaller (64) and TemplatesPerTenant (256) bound the templates
	// likewise. Who has as many loses the one of its own that was not used for
	// longest.
	TemplatesPerCaller, TemplatesPerTenant int
	// BytesPerCaller (16 MiB), BytesPerTenant (64 MiB) and MaxBytes (128 MiB) bound
	// the sizes of the templates of one owner, of a tenant, and of all together.
	BytesPerCaller, BytesPerTenant, MaxBytes int

	// AheadPerCaller (2) and AheadPerTenant (8) bound the templates of one owner, and
	// of all owners of a tenant, that were told of ahead and not used yet; a quarter
	// of Max bounds all of them.
	AheadPerCaller, AheadPerTenant int

	// Grace (10 s) is what a sandbox gets beyond its deadline before the
	// reaper takes it.
	Grace time.Duration
	// StartTimeout (2 minutes) bounds one start, DestroyTimeout (30 s) one
	// attempt to destroy.
	StartTimeout   time.Duration
	DestroyTimeout time.Duration
	// DrainTimeout (1 minute) is what runs in flight get when the pool stops.
	DrainTimeout time.Duration

	// Logger (none) and Registerer (a registry that nobody reads).
	Logger     hclog.Logger
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	orDefault(&o.TemplateIdle, 10*time.Minute)
	orDefault(&o.MaxTemplates, 32)
	orDefault(&o.Target, 3)
	orDefault(&o.Max, 64)
	orDefault(&o.MaxTarget, max(o.Target, min(32, o.Max)))
	orDefault(&o.MaxStarting, 8)
	orDefault(&o.MaxDestroying, 8)
	orDefault(&o.QueueLimit, 256)
	orDefault(&o.QueuePerCaller, 64)
	orDefault(&o.OwnedPerCaller, 16)
	orDefault(&o.OwnedPerTenant, 32)
	orDefault(&o.TemplatesPerCaller, 64)
	orDefault(&o.TemplatesPerTenant, 256)
	orDefault(&o.BytesPerCaller, 16<<20)
	orDefault(&o.BytesPerTenant, 64<<20)
	orDefault(&o.MaxBytes, 128<<20)
	orDefault(&o.AheadPerCaller, 2)
	orDefault(&o.AheadPerTenant, 8)
	orDefault(&o.MaxWait, 30*time.Second)
	orDefault(&o.Grace, 10*time.Second)
	orDefault(&o.StartTimeout, 2*time.Minute)
	orDefault(&o.DestroyTimeout, 30*time.Second)
	orDefault(&o.DrainTimeout, time.Minute)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	return o
}

func orDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

func (o Options) validate() error {
	if o.Driver == nil {
		return errors.New("Driver must be set")
	}
	numbers := []struct {
		name  string
		value int64
	}{
		{"TemplateIdle", int64(o.TemplateIdle)},
		{"MaxTemplates", int64(o.MaxTemplates)},
		{"Target", int64(o.Target)},
		{"MaxTarget", int64(o.MaxTarget)},
		{"Max", int64(o.Max)},
		{"MaxStarting", int64(o.MaxStarting)},
		{"MaxDestroying", int64(o.MaxDestroying)},
		{"QueueLimit", int64(o.QueueLimit)},
		{"QueuePerCaller", int64(o.QueuePerCaller)},
		{"OwnedPerCaller", int64(o.OwnedPerCaller)},
		{"OwnedPerTenant", int64(o.OwnedPerTenant)},
		{"TemplatesPerCaller", int64(o.TemplatesPerCaller)},
		{"TemplatesPerTenant", int64(o.TemplatesPerTenant)},
		{"BytesPerCaller", int64(o.BytesPerCaller)},
		{"BytesPerTenant", int64(o.BytesPerTenant)},
		{"MaxBytes", int64(o.MaxBytes)},
		{"AheadPerCaller", int64(o.AheadPerCaller)},
		{"AheadPerTenant", int64(o.AheadPerTenant)},
		{"MaxWait", int64(o.MaxWait)},
		{"Grace", int64(o.Grace)},
		{"StartTimeout", int64(o.StartTimeout)},
		{"DestroyTimeout", int64(o.DestroyTimeout)},
		{"DrainTimeout", int64(o.DrainTimeout)},
	}
	for _, n := range numbers {
		if n.value <= 0 {
			return fmt.Errorf("%s must be positive", n.name)
		}
	}
	switch {
	case o.InFlightPerCaller < 0:
		return errors.New("InFlightPerCaller must not be negative")
	case o.Target > o.MaxTarget:
		return fmt.Errorf("the setting Target (%d) must not exceed MaxTarget (%d)", o.Target, o.MaxTarget)
	case o.MaxTarget > o.Max:
		return fmt.Errorf("MaxTarget (%d) must not exceed Max (%d)", o.MaxTarget, o.Max)
	case len(o.Templates) > o.MaxTemplates:
		return fmt.Errorf("MaxTemplates (%d) must hold all %d Templates", o.MaxTemplates, len(o.Templates))
	}
	return nil
}
