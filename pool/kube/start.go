package kube

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// undoBound is what a failed start takes at most to clean up while its caller
// waits; then it goes on in the background.
const undoBound = 10 * time.Second

// Start implements pool.Driver: it makes a pod and returns when its runner has
// shown that it is unused, ready and closed.
func (d *Driver) Start(ctx context.Context, t pool.Template) (pool.Sandbox, error) {
	if err := d.waitReady(ctx); err != nil {
		return nil, fmt.Errorf("cannot start a sandbox: %w", err)
	}
	for {
		s, err := d.try(ctx, t)
		if _, again := errors.AsType[*uncovered](err); again {
			continue // its next pod covers what was found
		}
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// try makes one pod. What its runner finds that the pod must cover is known
// afterwards.
func (d *Driver) try(ctx context.Context, t pool.Template) (*sandbox, error) {
	id := identity{name: randomName("sb-", 20), replica: d.replica, secret: rand.Text() + rand.Text()}
	asked, of, err := d.podOf(ctx, t, id)
	if err != nil {
		return nil, err
	}
	st := &start{
		driver: d, template: t, id: id, began: time.Now(),
		asked: asked, entry: d.roster.expect(id.name, asked.Namespace),
		address: make(chan string, 1),
	}
	s, err := st.run(ctx)
	if found, is := errors.AsType[*uncovered](err); is {
		d.log.Info("an image has places that its pods must cover", "image", t.Image, "files", len(found.Files), "folders", len(found.Folders), "volumes", len(found.Volumes))
		if failure := d.forms.covers.learn(of, t, asked, found.Covers); failure != nil {
			err = failure
		} else {
			st.abandon()
			return nil, err
		}
	}
	if err != nil {
		st.failed(err)
		st.undo(ctx)
		return nil, err
	}
	return s, nil
}

// start is one sandbox on its way to being ready.
type start struct {
	driver   *Driver
	template pool.Template
	id       identity
	began    time.Time
	asked    *corev1.Pod
	entry    *entry
	address  chan string // has the pod's IP once it is known
	conn     Conn
	refused  bool // the pod was never made
	program  bool // the agent's program does not let itself be copied
}

func (st *start) run(ctx context.Context) (*sandbox, error) {
	if err := st.create(ctx); err != nil {
		return nil, err
	}
	// What the pod's status says ends every wait below.
	ctx, cancel := context.WithCancelCause(ctx)
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		if err := st.follow(ctx); err != nil {
			cancel(err)
		}
	}()
	defer func() { cancel(nil); <-followed }()
	fresh, err := st.connect(ctx)
	if err != nil {
		st.wait(ctx, followed)
		why := context.Cause(ctx)
		if _, told := errors.AsType[*api.Error](why); told {
			return nil, why
		}
		return nil, err
	}
	// Before anything of a program is there.
	if err := st.check(ctx, st.driver.roster.look(st.entry).pod); err != nil {
		return nil, err
	}
	if err := uncoveredVolumes(st.asked, fresh.Writable); err != nil {
		return nil, err
	}
	if err := st.prepare(ctx); err != nil {
		return nil, err
	}
	s := newSandbox(st)
	if !st.driver.roster.adopt(st.entry, s) {
		return nil, api.Errorf(api.NoCapacity, "cannot start a sandbox: it ended when it had just become ready").Because(reasonLost)
	}
	st.driver.work.Go(s.idle)
	st.driver.log.Debug("sandbox started", "sandbox", s.id, "ms", time.Since(st.began).Milliseconds(), "python", fresh.Python,
		"proof_tries", fresh.Proof.Tries, "proof_ms", fresh.Proof.MS)
	return s, nil
}

// wait gives the pod's status a moment to say why the runner hung up.
func (st *start) wait(ctx context.Context, followed <-chan struct{}) {
	if st.conn == nil {
		return
	}
	select {
	case <-st.conn.Broken():
	default:
		return
	}
	select {
	case <-followed:
	case <-ctx.Done():
	case <-time.After(st.driver.opts.LookBound):
	}
}

// create asks for the pod and compares the answer with what was asked.
func (st *start) create(ctx context.Context) error {
	defer st.driver.metrics.phase("create")()
	made, err := st.driver.opts.Client.CoreV1().Pods(st.asked.Namespace).Create(ctx, st.asked, metav1.CreateOptions{})
	if err == nil {
		st.driver.roster.created(st.entry, made.UID)
		return st.check(ctx, made)
	}
	if refused(err) {
		st.refused = true
		if strings.Contains(err.Error(), ownPolicy) {
			return st.changed(err.Error())
		}
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: the API server refuses its pod: %w", err).
			Because(reasonRefused).After(10 * time.Second)
	}
	// Such as a conflict of its own over the count of a quota.
	return pool.Accident(api.Errorf(api.NoCapacity, "cannot start a sandbox: cannot create its pod: %w", err).Because(reasonAPIServer).After(time.Second))
}

// ownPolicy is how the API server begins to tell that the chart's policy for what
// the pool makes refused a pod. It lets through all that is made here, as
// test/charts holds: what it refuses, something has changed.
const ownPolicy = "ValidatingAdmissionPolicy 'code-sandbox-sandboxes'"

// changed is the end of a start whose pod is not the one asked for; what says how.
func (st *start) changed(what string) *api.Error {
	st.driver.metrics.mutated.Inc()
	if st.template.Copy != nil {
		return api.Errorf(api.Unsandboxable, "cannot copy the agent: the cluster's admission changed the copy's pod: %s; "+
			"have what does that leave pods with the label %s alone", what, LabelCopy).Because(reasonCopy)
	}
	return api.Errorf(api.Internal, "cannot start a sandbox: the cluster's admission changed its pod: %s; "+
		"exclude the namespace %q from what does that", what, st.asked.Namespace).Because(reasonMutated)
}

// refused says whether the answer means that no pod was made: quota, rights,
// policy, an admission webhook, a namespace that is not there.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err)
}

// check refuses a pod that is not the one asked for, and a copy whose labels, as
// admitted, a NetworkPolicy opens.
func (st *start) check(ctx context.Context, got *corev1.Pod) error {
	if got == nil {
		return api.Errorf(api.NoCapacity, "cannot start a sandbox: its pod was never seen").Because(reasonLost)
	}
	if found := tampered(st.asked, got); len(found) > 0 {
		return st.changed(strings.Join(found, ", "))
	}
	if st.template.Copy != nil {
		if err := st.driver.opts.Copies.closed(ctx, got.Namespace, got.Labels); err != nil {
			return err
		}
	}
	return nil
}

// follow passes on the pod's address, and returns what keeps the pod from
// starting. It returns nil when ctx ends.
func (st *start) follow(ctx context.Context) error {
	var failure error
	patience := st.driver.opts.Patience
	for ctx.Err() == nil {
		// Looked at again when the patience is over: nothing may change until then.
		bound := max(patience-time.Since(st.began), 0) + time.Millisecond
		if time.Since(st.began) >= patience {
			bound = forever
		}
		st.driver.roster.await(ctx, st.entry, bound, func(v view) bool {
			switch {
			case v.gone || v.destroying:
				failure = pool.Accident(api.Errorf(api.NoCapacity, "cannot start a sandbox: its pod was deleted").Because(reasonLost))
			case v.pod != nil:
				if err := startFailure(v.pod, time.Since(st.began), patience); err != nil {
					failure = err
				}
				st.found(v.pod.Status.PodIP)
			}
			return failure != nil
		})
		if failure != nil {
			return failure
		}
	}
	return nil
}

func (st *start) found(ip string) {
	if ip == "" {
		return
	}
	select {
	case st.address <- ip:
	default:
	}
}

// connect waits for the pod's address, then for its runner, and asks it for the
// proof.
func (st *start) connect(ctx context.Context) (wire.Fresh, error) {
	var ip string
	arrived := st.driver.metrics.phase("address")
	select {
	case ip = <-st.address:
		arrived()
	case <-ctx.Done():
		return wire.Fresh{}, fmt.Errorf("cannot start a sandbox: its pod has no address yet: %w", context.Cause(ctx))
	}
	answered := st.driver.metrics.phase("runner")
	conn, err := st.driver.opts.Connect(ctx, net.JoinHostPort(ip, strconv.Itoa(wire.RunnerPort)), st.id.secret)
	if err != nil {
		return wire.Fresh{}, fmt.Errorf("cannot start a sandbox: cannot reach its runner: %w", err)
	}
	answered()
	st.conn = conn
	return st.prove(ctx)
}

// prove asks for the proof that the sandbox is unused and has no network.
func (st *start) prove(ctx context.Context) (wire.Fresh, error) {
	defer st.driver.metrics.phase("proof")()
	o := st.driver.opts
	proof := wire.Proof{DNS: st.template.DNS == DNSRelay, WithinMS: int(o.ProofWithin.Milliseconds())}
	if !o.NoNetworkProof {
		proof.Canaries = o.canaries()
		if err := st.driver.canary.alive(ctx); err != nil {
			return wire.Fresh{}, api.Errorf(api.Internal, "cannot start a sandbox: its silence would prove nothing: %w", err).Because(reasonNetwork)
		}
	}
	fresh, err := st.conn.Fresh(ctx, proof)
	switch {
	case err != nil:
		// A node with too much to do, perhaps.
		return wire.Fresh{}, pool.Accident(api.Errorf(api.NoCapacity, "cannot start a sandbox: %w", err).Because(reasonRunner))
	case len(fresh.Open) > 0:
		st.driver.metrics.open.Inc()
		// Or they come late there, as on a node with too much to do.
		return wire.Fresh{}, pool.Accident(api.Errorf(api.Internal, "cannot start a sandbox: it reaches %s, which the namespace's NetworkPolicies forbid, and still does "+
			"after %s: the cluster's network (CNI) does not enforce them; install one that does, or set networkProof: off to run code with a network",
			strings.Join(fresh.Open, ", "), o.ProofWithin).Because(reasonNetwork))
	case !fresh.Fresh:
		return wire.Fresh{}, api.Errorf(api.NoCapacity, "cannot start a sandbox: its runner is not ready: %s", fresh.Reason).Because(reasonRunner)
	}
	return fresh, nil
}

// abandon leaves nothing of a pod whose place another takes at once.
func (st *start) abandon() {
	st.conn.Close()
	_, uid := st.driver.roster.doom(st.entry)
	st.driver.insist(st.entry, uid)
}

// undo leaves nothing of a start that failed.
func (st *start) undo(ctx context.Context) {
	if st.conn != nil {
		st.conn.Close()
	}
	if st.refused {
		st.driver.roster.forget(st.entry)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoBound)
	defer cancel()
	_, uid := st.driver.roster.doom(st.entry)
	err := st.driver.remove(ctx, st.entry, uid)
	if err == nil {
		return
	}
	st.driver.log.Warn("cannot clean up after a start that failed", "sandbox", st.id.name, "error", err)
	st.driver.insist(st.entry, uid)
}
