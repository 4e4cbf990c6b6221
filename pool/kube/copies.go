package kube

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// retryAgent is when a pod may be as far as its copies need it.
	retryAgent = time.Second
	// statusBound bounds the wait for a pod's status to say what its container runs,
	// before the wait for a sandbox begins.
	statusBound = 10 * time.Second
	// nodeBound bounds the question which processor a node has.
	nodeBound = 2 * time.Second
	// policiesBound bounds the wait for the first look at a namespace's policies.
	policiesBound = 3 * time.Second
)

// CopiesOptions configures Copies. A field that is zero has the default named
// with it.
type CopiesOptions struct {
	// Client watches policies and reads nodes. Required, as is Callers, which
	// knows the agents' pods.
	Client  kubernetes.Interface
	Callers *Callers
	// CacheSize (4096) is of how many agents' containers, and of how many nodes,
	// is kept what copies need of them.
	CacheSize int
	// Labels (none) are those of PodConfig, which policies may select copies by.
	Labels map[string]string
	// Egress says that the driver has a proxy for what tools are granted.
	Egress bool
	Logger hclog.Logger // none
}

// Copies knows what the copies of agents are made of, and whether they may be.
// Make one with NewCopies, give it to the driver's Options, and have Follow run
// for each enrolled namespace (CallersOptions.Enrolled).
type Copies struct {
	opts      CopiesOptions
	log       hclog.Logger
	directory *directory
	agents    *lru.Cache[agentKey, knownAgent]
	arches    *lru.Cache[string, string] // by node

	mu       sync.Mutex
	policies map[string]*policyWatch // by namespace
}

type agentKey struct {
	uid       types.UID
	container string
}

// knownAgent is an agent as it was read from that state of its pod.
type knownAgent struct {
	version string
	agent   *agent
}

// NewCopies makes a Copies.
func NewCopies(o CopiesOptions) (*Copies, error) {
	if o.Client == nil || o.Callers == nil {
		return nil, errors.New("cannot make copies of agents without a Client and Callers")
	}
	orDefault(&o.CacheSize, 4096)
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	c := &Copies{opts: o, log: o.Logger, directory: o.Callers.directory, policies: map[string]*policyWatch{}}
	var err error
	if c.agents, err = lru.New[agentKey, knownAgent](o.CacheSize); err != nil {
		return nil, fmt.Errorf("cannot make copies of agents: %w", err)
	}
	if c.arches, err = lru.New[string, string](o.CacheSize); err != nil {
		return nil, fmt.Errorf("cannot make copies of agents: %w", err)
	}
	return c, nil
}

// policyWatch is a watch of the NetworkPolicies of a namespace, which begins when
// the first copy is asked for there: of others it is nobody's business.
type policyWatch struct {
	informer cache.SharedIndexInformer
	asked    chan struct{}
	once     sync.Once
}

// Follow watches the NetworkPolicies of an enrolled namespace until ctx ends.
func (c *Copies) Follow(ctx context.Context, namespace string) {
	w := &policyWatch{informer: networkinginformers.NewNetworkPolicyInformer(c.opts.Client, namespace, 0, cache.Indexers{}), asked: make(chan struct{})}
	if err := tellWatchErrors(w.informer, c.log.With("namespace", namespace)); err != nil {
		c.log.Error("cannot watch the policies of an enrolled namespace", "namespace", namespace, "error", err)
		return // what is not watched opens nothing: copies are refused there
	}
	c.mu.Lock()
	c.policies[namespace] = w
	c.mu.Unlock()
	select {
	case <-w.asked:
		w.informer.RunWithContext(ctx)
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.policies[namespace] == w {
		delete(c.policies, namespace)
	}
}

// known says whether the policies of a namespace are known, and gives the first
// who asks the time that it takes.
func (w *policyWatch) known(ctx context.Context) bool {
	w.once.Do(func() { close(w.asked) })
	ctx, cancel := context.WithTimeout(ctx, policiesBound)
	defer cancel()
	return w.informer.HasSynced() || cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced)
}

// Template is the copy of the caller's own pod that the program asks for, with
// the base's limits and lookups. Whose image it is, no client says: it is the one
// that the caller's pod runs. The error is an *api.Error of which nothing ran.
func (c *Copies) Template(ctx context.Context, caller pool.Caller, program *wire.Copy, base pool.Template) (pool.Template, error) {
	size := sizeOf(program)
	if size > maxProgram {
		return pool.Template{}, api.Errorf(api.TooLarge, "the copy's description has %d bytes, over the limit of %d", size, maxProgram)
	}
	a, err := c.agentSoon(ctx, caller, program.Container)
	if err != nil {
		return pool.Template{}, err
	}
	if err := c.granted(a, program.Egress); err != nil {
		return pool.Template{}, err
	}
	t := pool.Template{Image: a.image, Limits: base.Limits, DNS: base.DNS, Owner: caller, Copy: program, Size: size, Warm: 1}
	if a.memory > 0 {
		t.Limits.MemoryBytes = min(t.Limits.MemoryBytes, a.memory)
	}
	if err := c.closed(ctx, a.namespace, labelsFor(PodConfig{Labels: c.opts.Labels}, t, "")); err != nil {
		return pool.Template{}, err
	}
	return t, nil
}

// maxProgram bounds the description of a copy, in bytes: it is kept as long as
// the copy's template is. A sidecar sends half of it at most.
const maxProgram = 2 << 20

// perString is what a string takes besides its bytes: a list of empty ones has a
// size, too.
const perString = 16

// sizeOf is about what a description takes in memory.
func sizeOf(c *wire.Copy) int {
	size := len(c.Container) + len(c.Python) + len(c.Boot) + len(c.Target)
	lists := [][]string{c.Flags, c.Prefixes, c.Program}
	if c.Egress != nil {
		size += len(c.Egress.Tool)
		lists = append(lists, c.Egress.Hosts)
	}
	for _, list := range lists {
		for _, s := range list {
			size += len(s) + perString
		}
	}
	for name, value := range c.Env {
		size += len(name) + len(value) + 2*perString
	}
	return size
}

// agentSoon is agent, for a program that may call before its node has told what it
// runs: that is waited for.
func (c *Copies) agentSoon(ctx context.Context, caller pool.Caller, container string) (*agent, *api.Error) {
	late := time.NewTimer(statusBound)
	defer late.Stop()
	for {
		changed := c.directory.change()
		a, err := c.agent(ctx, caller, container)
		if err == nil || err.Code != api.NoCapacity || err.Reason != reasonDigest {
			return a, err
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, err
		case <-ctx.Done():
			return nil, err
		}
	}
}

// agent is what the copies of a caller's container are made of.
func (c *Copies) agent(ctx context.Context, caller pool.Caller, container string) (*agent, *api.Error) {
	p := c.directory.podOf(caller)
	if p == nil {
		return nil, api.Errorf(api.NoCapacity, "cannot copy the agent: its pod is not known, or is ending").After(retryAgent)
	}
	key := agentKey{p.UID, container}
	known, ok := c.agents.Get(key)
	if ok && known.version == p.ResourceVersion {
		return known.agent, nil
	}
	a, err := agentOf(p, container)
	if err != nil {
		return nil, err
	}
	if a.arch == "" && a.node != "" {
		a.arch = c.arch(ctx, a.node)
	}
	if ok && reflect.DeepEqual(known.agent, a) {
		a = known.agent // what else of its pod changed is nothing to its copies
	}
	c.agents.Add(key, knownAgent{p.ResourceVersion, a})
	return a, nil
}

// arch is the node's kind of processor. It may be empty: then an image for
// several kinds may meet a node of another one, which the interpreter's folders
// will not fit.
func (c *Copies) arch(ctx context.Context, node string) string {
	if arch, ok := c.arches.Get(node); ok {
		return arch
	}
	ctx, cancel := context.WithTimeout(ctx, nodeBound)
	defer cancel()
	n, err := c.opts.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		c.log.Warn("cannot tell which processor a node has; copies may be scheduled to another kind", "node", node, "error", err)
		return ""
	}
	arch := n.Labels[corev1.LabelArchStable]
	c.arches.Add(node, arch)
	return arch
}

// closed refuses copies that a policy of their namespace would open.
func (c *Copies) closed(ctx context.Context, namespace string, labels map[string]string) *api.Error {
	c.mu.Lock()
	w := c.policies[namespace]
	c.mu.Unlock()
	if w == nil || !w.known(ctx) {
		return api.Errorf(api.NoCapacity, "cannot copy the agent yet: the NetworkPolicies of the namespace %q are not known", namespace).After(retryAgent)
	}
	var policies []*networkingv1.NetworkPolicy
	for _, object := range w.informer.GetStore().List() {
		if p, ok := object.(*networkingv1.NetworkPolicy); ok {
			policies = append(policies, p)
		}
	}
	with, opens := conflict(policies, labels)
	if with == nil {
		return nil
	}
	return api.Errorf(api.Unsandboxable, "cannot copy the agent: the NetworkPolicy %q of the namespace %q selects copies as well, and opens %s; "+
		"let its podSelector leave them out, with matchExpressions: [{key: %s, operator: DoesNotExist}]", with.Name, namespace, opens, LabelCopy).
		Because(reasonConflict)
}

// agentFor is the agent that a template of Template's is for.
func (c *Copies) agentFor(ctx context.Context, t pool.Template) (*agent, *api.Error) {
	a, err := c.agent(ctx, t.Owner, t.Copy.Container)
	if err == nil && a.image != t.Image {
		return nil, api.Errorf(api.NoCapacity, "cannot copy the agent: its container was started anew, with another image").After(retryAgent)
	}
	return a, err
}
