package kube

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

const (
	// reviewPause and reviewBurst bound the verifications of tokens that name one
	// pod: of those that come from its own address, and of all others together. A
	// sidecar has a new token every few minutes.
	reviewPause = time.Second
	reviewBurst = 5
	// reviewBound is what one verification may take.
	reviewBound = 5 * time.Second
	// reviewsAtOnce bounds the verifications under way for pods that call
	// themselves, strangersAtOnce those for others, waitersAtOnce the waits for
	// pods that are not known yet, and waitersOfOne those of one address.
	reviewsAtOnce   = 64
	strangersAtOnce = 16
	waitersAtOnce   = 64
	waitersOfOne    = 16
)

// CallersOptions configures Callers. A field that is zero has the default named
// with it.
type CallersOptions struct {
	// Client watches namespaces and pods and asks for TokenReviews. Required.
	Client kubernetes.Interface
	// Audience (code-sandbox-pool) is whom tokens must be for.
	Audience string
	// Remember (1 minute) is how long a good token is not verified again, Refuse
	// (10 s) how long a bad one. Both keep CacheSize (4096) tokens.
	Remember, Refuse time.Duration
	CacheSize        int
	// Lag (2 s) is how long the watch may take to show a pod that calls.
	Lag time.Duration
	// Enrolled (nothing) is called for each enrolled namespace and returns soon
	// after ctx ends; Gone (nothing) for each caller that will not call again. It
	// must not block.
	Enrolled func(ctx context.Context, namespace string)
	Gone     func(pool.Caller)
	// Logger (none) and Registerer (a registry that nobody reads).
	Logger     hclog.Logger
	Registerer prometheus.Registerer
}

// Callers implements pool.Callers: a projected token stands for the pod that it
// was made for. Make one with NewCallers and run it with Run.
//
// What a token says of itself is read first: only one that names a living pod
// of an enrolled namespace is worth a question to the API server.
type Callers struct {
	opts      CallersOptions
	log       hclog.Logger
	directory *directory
	ready     chan struct{}
	good, bad *lru.Cache[[sha256.Size]byte, verdict]
	flights   singleflight.Group
	reviews   chan struct{} // one place for each verification under way
	strangers chan struct{} // likewise, of tokens from another address than the pod's
	waiters   waiters
	resolved  *prometheus.CounterVec
	reviewed  *prometheus.CounterVec
}

var _ pool.Callers = (*Callers)(nil)

// verdict is what a verification said, and until when it holds.
type verdict struct {
	until time.Time
	err   *api.Error // nil for a good token
}

// refused is the verdict's error, for one caller alone.
func (v verdict) refused() *api.Error {
	if v.err == nil {
		return nil
	}
	e := *v.err
	return &e
}

// NewCallers makes a Callers.
func NewCallers(opts CallersOptions) (*Callers, error) {
	orDefault(&opts.Audience, "code-sandbox-pool")
	orDefault(&opts.Remember, time.Minute)
	orDefault(&opts.Refuse, 10*time.Second)
	orDefault(&opts.CacheSize, 4096)
	orDefault(&opts.Lag, 2*time.Second)
	if opts.Logger == nil {
		opts.Logger = hclog.NewNullLogger()
	}
	if opts.Registerer == nil {
		opts.Registerer = prometheus.NewRegistry()
	}
	if opts.Client == nil {
		return nil, errors.New("cannot tell callers: the setting Client must be set")
	}
	c := &Callers{
		opts: opts, log: opts.Logger, directory: newDirectory(opts.Client, opts.Logger), ready: make(chan struct{}),
		reviews: make(chan struct{}, reviewsAtOnce), strangers: make(chan struct{}, strangersAtOnce), waiters: waiters{from: map[netip.Addr]int{}},
		resolved: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_callers_total", Help: "Tokens shown to the pool, by what became of them.",
		}, []string{"result"}),
		reviewed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "code_sandbox_token_reviews_total", Help: "Tokens verified by the API server.",
		}, []string{"result"}),
	}
	c.directory.enrols, c.directory.ends = opts.Enrolled, opts.Gone
	var err error
	for _, to := range []**lru.Cache[[sha256.Size]byte, verdict]{&c.good, &c.bad} {
		if *to, err = lru.New[[sha256.Size]byte, verdict](opts.CacheSize); err != nil {
			return nil, fmt.Errorf("cannot tell callers: %w", err)
		}
	}
	for _, counter := range []prometheus.Collector{c.resolved, c.reviewed} {
		if err := opts.Registerer.Register(counter); err != nil {
			return nil, fmt.Errorf("cannot tell callers: cannot register metrics: %w", err)
		}
	}
	return c, nil
}

// Run watches the enrolled namespaces until ctx ends.
func (c *Callers) Run(ctx context.Context) error {
	if err := c.directory.run(ctx, func() { close(c.ready) }); err != nil {
		return fmt.Errorf("cannot watch the enrolled namespaces: %w", err)
	}
	return nil
}

// Resolve implements pool.Callers.
func (c *Callers) Resolve(ctx context.Context, token string, from netip.Addr) (pool.Caller, error) {
	caller, err := c.resolve(ctx, token, from)
	if err != nil {
		c.resolved.WithLabelValues(string(err.Code)).Inc()
		return pool.Caller{}, err
	}
	c.resolved.WithLabelValues("ok").Inc()
	return caller, nil
}

func (c *Callers) resolve(ctx context.Context, token string, from netip.Addr) (pool.Caller, *api.Error) {
	said, err := readClaims(token, c.opts.Audience, time.Now())
	if err != nil {
		return pool.Caller{}, unauthenticated("%s", err)
	}
	pod, failure := c.pod(ctx, said, from)
	if failure != nil {
		return pool.Caller{}, failure
	}
	if failure := c.verify(ctx, token, said, c.laneOf(pod, from)); failure != nil {
		return pool.Caller{}, failure
	}
	return callerOf(said.namespace, said.pod, said.uid), nil
}

func unauthenticated(format string, args ...any) *api.Error {
	return api.Errorf(api.Unauthenticated, "the token is not good: "+format, args...)
}

func unavailable(format string, args ...any) *api.Error {
	return api.Errorf(api.NoCapacity, "cannot verify the token for now: "+format, args...).After(time.Second)
}

// pod is the living pod that the token names.
func (c *Callers) pod(ctx context.Context, said claims, from netip.Addr) (*resident, *api.Error) {
	select {
	case <-c.ready:
	default:
		return nil, unavailable("the pool has just started")
	}
	name := types.NamespacedName{Namespace: said.namespace, Name: said.pod}
	pod, enrolled := c.directory.find(ctx, name, types.UID(said.uid), 0)
	if pod == nil && enrolled {
		if !c.waiters.enter(from) {
			return nil, unavailable("too many pods that are not known yet call at once")
		}
		pod, enrolled = c.directory.find(ctx, name, types.UID(said.uid), c.opts.Lag)
		c.waiters.leave(from)
	}
	switch {
	case !enrolled:
		return nil, api.Errorf(api.Forbidden, "the namespace %q may not run code: it is not enrolled; label it %s=true", said.namespace, LabelEnabled)
	case pod == nil:
		return nil, unauthenticated("the pod %q that it names does not exist", said.pod)
	case pod.leaving:
		return nil, unauthenticated("the pod %q that it names is ending", said.pod)
	case pod.account != said.account:
		return nil, unauthenticated("it is not of the service account of the pod %q", said.pod)
	}
	return pod, nil
}

// verify answers from what is remembered, or asks the API server, once for all
// who show the same token.
func (c *Callers) verify(ctx context.Context, token string, said claims, in lane) *api.Error {
	hash := sha256.Sum256([]byte(token))
	for _, known := range []*lru.Cache[[sha256.Size]byte, verdict]{c.good, c.bad} {
		if v, ok := known.Get(hash); ok && time.Now().Before(v.until) {
			return v.refused()
		}
	}
	asked := c.flights.DoChan(in.name+string(hash[:]), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewBound)
		defer cancel()
		return c.review(ctx, token, hash, said, in), nil
	})
	select {
	case answer := <-asked:
		failure, _ := answer.Val.(*api.Error)
		return failure
	case <-ctx.Done():
		return unavailable("%w", context.Cause(ctx))
	}
}

// review asks the API server, within what may be asked of it, and remembers
// what it says.
func (c *Callers) review(ctx context.Context, token string, hash [sha256.Size]byte, said claims, in lane) *api.Error {
	if !in.rate.Allow() {
		return unavailable("too many tokens that name the pod %q were shown", said.pod)
	}
	select {
	case in.places <- struct{}{}:
		defer func() { <-in.places }()
	default:
		return unavailable("too many tokens are being verified")
	}
	answer, err := c.opts.Client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{c.opts.Audience}},
	}, metav1.CreateOptions{})
	if err != nil {
		c.reviewed.WithLabelValues("failed").Inc()
		c.log.Warn("cannot verify a token", "namespace", said.namespace, "pod", said.pod, "error", err)
		return unavailable("the API server does not answer: %w", err)
	}
	now := time.Now()
	if why := c.refusal(answer.Status, said); why != "" {
		c.reviewed.WithLabelValues("bad").Inc()
		c.log.Warn("a token was refused", "namespace", said.namespace, "pod", said.pod, "reason", why)
		failure := unauthenticated("%s", why)
		c.bad.Add(hash, verdict{until: now.Add(c.opts.Refuse), err: failure})
		return failure
	}
	c.reviewed.WithLabelValues("good").Inc()
	until := now.Add(c.opts.Remember)
	if said.expires.Before(until) {
		until = said.expires
	}
	c.good.Add(hash, verdict{until: until})
	return nil
}

// Names under which the API server says which pod a token is bound to.
const (
	extraPodName = "authentication.kubernetes.io/pod-name"
	extraPodUID  = "authentication.kubernetes.io/pod-uid"
)

// refusal says why the API server's answer does not bear out what the token
// says of itself; empty when it does.
func (c *Callers) refusal(s authenticationv1.TokenReviewStatus, said claims) string {
	is := func(key, want string) bool { return slices.Equal(s.User.Extra[key], authenticationv1.ExtraValue{want}) }
	switch {
	case !s.Authenticated:
		return "the API server does not know it" // its own words may quote the token
	case !slices.Contains(s.Audiences, c.opts.Audience):
		return fmt.Sprintf("it is not for the audience %q", c.opts.Audience)
	case s.User.Username != "system:serviceaccount:"+said.namespace+":"+said.account:
		return "it is another account's"
	case !is(extraPodName, said.pod) || !is(extraPodUID, said.uid):
		return "it is another pod's"
	}
	return ""
}
