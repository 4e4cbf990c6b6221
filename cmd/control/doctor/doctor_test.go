package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// service answers each program with a result of the test's, and otherwise as a
// sandbox does that protects all.
type service struct {
	limits  Limits
	results map[string]*wire.Result // by program
	failure error
	knows   time.Time           // when it has heard of its pool
	args    map[string][]string // what each program was given
}

const mib = 1 << 20

// closed is a service that keeps every promise.
func closed() *service {
	return &service{
		limits: Limits{Isolation: "pod", Network: "dns", NetworkProof: "on", MemoryBytes: 512 * mib, DiskBytes: 256 * mib},
		args:   map[string][]string{},
		results: map[string]*wire.Result{
			dialProgram:      result(wire.OK, `{"said": {"10.0.0.1:443": "closed: timed out", "10.0.0.2:10250": "closed: timed out"}}`),
			lookProgram:      result(wire.OK, looks),
			memoryProgram:    result(wire.OutOfMemory, ""),
			processesProgram: result(wire.OK, `{"started": 250, "refused": "can't start new thread"}`),
			diskProgram:      result(wire.OK, `{"written": 268435456, "refused": "No space left on device"}`),
		},
	}
}

const looks = `{"tokens": [], "writable": [], "uid_map": [[0, 65536, 65536]], "resolvers": ["10.96.0.10"], "names": {"kubernetes.default.svc.x": ["10.96.0.1"]}}`

func result(outcome wire.Outcome, stdout string) *wire.Result {
	return &wire.Result{Outcome: outcome, Stdout: stdout, Reason: "It ended."}
}

func (s *service) Limits(context.Context) (Limits, error) {
	if time.Now().Before(s.knows) {
		return Limits{}, nil
	}
	return s.limits, nil
}

func (s *service) Run(_ context.Context, code string, args []string) (*wire.Result, error) {
	s.args[code] = args
	if s.failure != nil {
		return nil, s.failure
	}
	return s.results[code], nil
}

var twoTargets = []Target{
	{Name: "API server", Addresses: []string{"10.0.0.1:443"}, Change: "close it"},
	{Name: "kubelet of a node", Addresses: []string{"10.0.0.2:10250"}, Change: "close it"},
	{Name: "pool", Missing: "none is known: set --pool"},
}

func options(s Service) Options {
	return Options{Service: s, Targets: twoTargets, Lookup: "kubernetes.default.svc.x", Resolvers: []string{"10.96.0.10"}, Patience: time.Second,
		Dial: func(context.Context, string) error { return nil }}
}

func examine(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Examine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func find(t *testing.T, r *Report, name string) Row {
	t.Helper()
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Name == name })
	if i < 0 {
		t.Fatalf("there is no row %q in %+v", name, r.Rows)
	}
	return r.Rows[i]
}

// A service that protects all keeps every promise; each thing that it does not
// protect is told by its row, by that row alone, and with what to change.
func TestEachRowInBothStates(t *testing.T) {
	all := examine(t, options(closed()))
	if broken := all.Broken(); len(broken) > 0 {
		t.Fatalf("a service that protects all does not: %v in %+v", broken, all.Rows)
	}
	f := func(name, saw, change string, open func(*service, *Options)) {
		t.Helper()
		before := find(t, all, name)
		s := closed()
		o := options(s)
		open(s, &o)
		r := examine(t, o)
		row := find(t, r, name)
		if before.State == NotProtected || row.State != NotProtected || !strings.Contains(row.Saw, saw) || !strings.Contains(row.Change, change) {
			t.Errorf("%s was %+v and is %+v", name, before, row)
		}
		want := []string{name}
		if !row.Promised {
			want = nil
		}
		if got := r.Broken(); !slices.Equal(got, want) {
			t.Errorf("%s: broken are %q", name, got)
		}
	}
	says := func(program, old, new string) func(*service, *Options) {
		return func(s *service, _ *Options) {
			text := s.results[program].Stdout
			if !strings.Contains(text, old) {
				t.Errorf("%q is not in %s", old, text)
			}
			s.results[program].Stdout = strings.ReplaceAll(text, old, new)
		}
	}
	ends := func(program string, outcome wire.Outcome, stdout string) func(*service, *Options) {
		return func(s *service, _ *Options) { s.results[program] = result(outcome, stdout) }
	}
	f("API server", "reaches 10.0.0.1:443", "close it", says(dialProgram, `1:443": "closed: timed out"`, `1:443": "open"`))
	f("kubelet of a node", "reaches 10.0.0.2:10250", "close it", says(dialProgram, `10250": "closed: timed out"`, `10250": "open"`))
	f("kubelet of a node", "could not be tried", "", says(dialProgram, `, "10.0.0.2:10250": "closed: timed out"`, ""))
	f("service account token", "reads /var/run/secrets/x/token", "exclude", says(lookProgram, `"tokens": []`, `"tokens": ["/var/run/secrets/x/token"]`))
	f("writing outside /work and /tmp", "writes to /etc, /opt", "readOnlyRootFilesystem", says(lookProgram, `"writable": []`, `"writable": ["/etc", "/opt"]`))
	f("writing outside /work and /tmp", "/4, /5 and 2 more", "", says(lookProgram, `"writable": []`, `"writable": ["/1", "/2", "/3", "/4", "/5", "/6", "/7"]`))
	f("name lookups", "not found: Name or service", "network.dns", says(lookProgram, `["10.96.0.1"]`, `"Name or service not known"`))
	f("name lookups", "though sandbox.dns is none", "NetworkPolicy", func(s *service, _ *Options) { s.limits.Network = "none" })
	f("user namespace", "the same id", "sandbox.userNamespace=true", says(lookProgram, "[0, 65536, 65536]", "[0, 0, 4294967295]"))
	f("memory", "held 576 MiB", "kubelets", ends(memoryProgram, wire.OK, "{}"))
	f("memory", "ended with evicted", "eviction", ends(memoryProgram, wire.Evicted, ""))
	f("memory", "no limit is in force", "isolation", func(s *service, _ *Options) { s.limits.MemoryBytes = 0 })
	f("disk", "no limit is in force", "isolation", func(s *service, _ *Options) { s.limits.DiskBytes = 0 })
	f("number of processes", "5000 threads at once: podPidsLimit is missing", "podPidsLimit", ends(processesProgram, wire.OK, `{"started": 5000, "refused": ""}`))
	f("number of processes", "only its memory", "podPidsLimit", ends(processesProgram, wire.OutOfMemory, ""))
	f("disk", "wrote 320 MiB", "sizeLimit", ends(diskProgram, wire.OK, `{"written": 335544320, "refused": ""}`))
	f("disk", "could not be tried", "", ends(diskProgram, wire.Killed, ""))
	f("closed before code", "network.proof is false", "network.proof=true", func(s *service, _ *Options) { s.limits.NetworkProof = "off" })
}

// P19: a resolver on the node is told of, with what to set, and only as long as
// lookups are not answered.
func TestNodeLocalResolver(t *testing.T) {
	f := func(resolvers []string, names string, want State, change string) {
		t.Helper()
		s := closed()
		s.results[lookProgram].Stdout = strings.ReplaceAll(looks, `["10.96.0.1"]`, names)
		o := options(s)
		o.Resolvers = resolvers
		row := find(t, examine(t, o), "node-local resolver")
		if row.State != want || !strings.Contains(row.Change, change) {
			t.Errorf("%v, %s: %+v", resolvers, names, row)
		}
	}
	f([]string{"10.96.0.10"}, `["10.96.0.1"]`, NotApplicable, "")
	f([]string{"10.96.0.10"}, `"no"`, NotApplicable, "")
	f([]string{"169.254.20.10"}, `["10.96.0.1"]`, Protected, "")
	f([]string{"169.254.20.10"}, `"no"`, NotProtected, "network.dns.addresses={169.254.20.10/32} of both charts, and sandbox.nameServers={169.254.20.10}")
	f([]string{"fe80::a"}, `"no"`, NotProtected, "{fe80::a/128}")
}

// Silence shows nothing where nobody answers doctor either, or nothing is known.
func TestNotApplicable(t *testing.T) { synctest.Test(t, testNotApplicable) }

func testNotApplicable(t *testing.T) {
	o := options(closed())
	var tries atomic.Int32
	o.Dial = func(_ context.Context, address string) error {
		if address == "10.0.0.2:10250" {
			return errors.New("no route to host")
		}
		if tries.Add(1) == 1 {
			return errors.New("it comes in a moment")
		}
		return nil
	}
	o.Lookup = ""
	r := examine(t, o)
	for name, saw := range map[string]string{
		"kubelet of a node": "neither a sandbox nor doctor reaches 10.0.0.2:10250 (no route to host)",
		"pool":              "set --pool", "name lookups": "--lookup",
	} {
		if row := find(t, r, name); row.State != NotApplicable || !strings.Contains(row.Saw, saw) {
			t.Errorf("%s is %+v", name, row)
		}
	}
	if row := find(t, r, "API server"); row.State != Protected {
		t.Errorf("the API server is %+v", row)
	}
	// One machine has no network that somebody would have to close.
	s := closed()
	s.limits.NetworkProof = ""
	if row := find(t, examine(t, options(s)), "closed before code"); row.State != NotApplicable {
		t.Errorf("without a proof: %+v", row)
	}
}

// Programs go over the limits that are in force.
func TestGoesOverTheLimits(t *testing.T) {
	s := closed()
	s.limits.Processes = 128
	r := examine(t, options(s))
	for program, want := range map[string]string{
		memoryProgram: fmt.Sprint(576 * mib), diskProgram: fmt.Sprint(320 * mib), processesProgram: "192",
	} {
		if got := s.args[program]; len(got) != 1 || got[0] != want {
			t.Errorf("a program is given %q, want %s", got, want)
		}
	}
	if row := find(t, r, "number of processes"); row.State != Protected {
		t.Errorf("%+v", row)
	}
	for _, outcome := range []wire.Outcome{wire.DiskFull, wire.OutOfMemory, wire.Evicted} {
		s.results[diskProgram] = result(outcome, "")
		if row := find(t, examine(t, options(s)), "disk"); row.State != Protected {
			t.Errorf("%s: %+v", outcome, row)
		}
	}
	s.results[processesProgram] = result(wire.ProcessLimit, "")
	if row := find(t, examine(t, options(s)), "number of processes"); row.State != Protected {
		t.Errorf("%+v", row)
	}
}

// Where nothing runs nothing is shown: everything is told as not protected.
func TestNothingRuns(t *testing.T) {
	s := closed()
	s.failure = errors.New("no_capacity: the canaries answer")
	r := examine(t, options(s))
	want := []string{"API server", "kubelet of a node", "service account token", "writing outside /work and /tmp", "name lookups", "node-local resolver",
		"memory", "number of processes", "disk"}
	if got := r.Broken(); !slices.Equal(got, want) {
		t.Errorf("broken are %q", got)
	}
	if row := find(t, r, "memory"); !strings.Contains(row.Saw, "the canaries answer") {
		t.Errorf("%+v", row)
	}
}

// A service that does not know its pool yet is waited for, within a bound.
func TestWaitsForThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := closed()
		began := time.Now()
		s.knows = began.Add(time.Hour)
		if _, err := Examine(t.Context(), options(s)); err == nil || !strings.Contains(err.Error(), "its pool has not answered") {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it waited for %s", took)
		}
		s.knows = time.Now().Add(700 * time.Millisecond)
		if _, err := Examine(t.Context(), options(s)); err != nil {
			t.Errorf("a service whose pool comes: %v", err)
		}
	})
}

func TestReport(t *testing.T) {
	r := &Report{Isolation: "pod", Rows: []Row{
		{Name: "a", State: Protected, Promised: true, Saw: "closed"},
		{Name: "longer", State: NotProtected, Promised: true, Saw: "open <b>", Change: "close it"},
		{Name: "c", State: NotProtected, Saw: "chosen", Change: "choose"},
	}}
	var table, text strings.Builder
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	want := `a       protected       closed
longer  not protected   open <b>
                        > close it
c       not protected   chosen
                        > choose
`
	if table.String() != want {
		t.Errorf("the table is\n%s", table.String())
	}
	if err := r.JSON(&text); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Isolation string
		Rows      []Row
		Broken    []string
	}
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil || strings.Count(text.String(), "\n") != 1 || !slices.Equal(got.Broken, []string{"longer"}) || len(got.Rows) != 3 ||
		got.Rows[1] != r.Rows[1] || got.Isolation != "pod" || !strings.Contains(text.String(), "<b>") {
		t.Errorf("%v: %s", err, text.String())
	}
	r.Rows = r.Rows[:1]
	text.Reset()
	if err := r.JSON(&text); err != nil || !strings.Contains(text.String(), `"broken":[]`) {
		t.Errorf("%v: %s", err, text.String())
	}
}
