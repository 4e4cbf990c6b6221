package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// town is a world with an enrolled namespace in which an agent lives.
type town struct {
	*world
	driver *Driver
	copies *Copies
	gone   chan pool.Caller
}

var inhabitant = callerOf("agents", "agent-1", "uid-1")

func inTown(t *testing.T, test func(o *town)) {
	t.Helper()
	inWorldWith(t, func(w *world, opts *Options) func() {
		tw := &town{world: w, gone: make(chan pool.Caller, 100)}
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents", Labels: map[string]string{LabelEnabled: "true"}}}
		if _, err := w.kube.CoreV1().Namespaces().Create(w.Context(), ns, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		if err := w.kube.Tracker().Add(agentPod()); err != nil {
			w.Fatal(err)
		}
		callers, err := NewCallers(CallersOptions{Client: w.kube, Gone: func(c pool.Caller) { tw.gone <- c },
			Enrolled: func(ctx context.Context, namespace string) {
				done := make(chan struct{})
				go func() { defer close(done); tw.driver.Follow(ctx, namespace) }()
				tw.copies.Follow(ctx, namespace)
				<-done
			}})
		if err != nil {
			w.Fatal(err)
		}
		if tw.copies, err = NewCopies(CopiesOptions{Client: w.kube, Callers: callers}); err != nil {
			w.Fatal(err)
		}
		opts.Copies = tw.copies
		return func() {
			ctx, cancel := context.WithCancel(w.Context())
			done := make(chan error, 1)
			tw.driver = w.last
			go func() { done <- callers.Run(ctx) }()
			after(time.Second)
			test(tw)
			cancel()
			if err := <-done; err != nil {
				w.Error(err)
			}
		}
	})
}

func (o *town) template(program *wire.Copy) (pool.Template, error) {
	return o.copies.Template(o.Context(), inhabitant, program, testTemplate())
}

func (o *town) refused(err error, reason string, code api.Code) {
	o.Helper()
	e, ok := err.(*api.Error) //nolint:errorlint // callers see it as it is
	if !ok || e.Reason != reason || e.Code != code || e.Executed != api.No {
		o.Errorf("got %v; want %s, %s", err, code, reason)
	}
}

// change changes the agent's pod.
func (o *town) change(change func(p *corev1.Pod)) {
	o.Helper()
	p := agentPod()
	change(p)
	if err := o.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("pods"), p, p.Namespace); err != nil {
		o.Fatal(err)
	}
	after(time.Second)
}

// A copy lives beside its agent, is closed before it gets the program, and goes
// when it is destroyed.
func TestCopyStarts(t *testing.T) {
	inTown(t, func(o *town) {
		template, err := o.template(testProgram())
		if err != nil {
			t.Fatal(err)
		}
		if template.Image != appDigest || template.Owner != inhabitant || template.Warm != 1 || template.Preload != nil {
			t.Errorf("the template is %+v", template)
		}
		var order []string
		o.runner = func() *fakeConn {
			c := &fakeConn{}
			c.fresh = func(context.Context, wire.Proof) (wire.Fresh, error) {
				if c.prepared != nil {
					t.Error("the program was there before the proof")
				}
				order = append(order, "proof")
				return wire.Fresh{Fresh: true}, nil
			}
			return c
		}
		s, err := o.driver.Start(o.Context(), template)
		if err != nil {
			t.Fatal(err)
		}
		if conn := o.conns[0]; len(order) != 1 || conn.prepared.Key() != testProgram().Key() || len(conn.proof.Canaries) == 0 {
			t.Errorf("%v, %+v", order, conn)
		}
		p, err := o.kube.CoreV1().Pods("agents").Get(o.Context(), s.ID(), metav1.GetOptions{})
		if err != nil || p.OwnerReferences[0].UID != "uid-1" {
			t.Fatalf("%+v, %v", p, err)
		}
		if err := o.driver.Destroy(o.Context(), s.ID()); err != nil {
			t.Error(err)
		}
		if left := o.pods(); len(left) != 1 {
			t.Errorf("left: %q", left)
		}
	})
}

// What the copy says of its import is the caller's to know; nothing is left.
func TestCopyDoesNotImport(t *testing.T) {
	f := func(failure error, reason string, code api.Code) {
		t.Helper()
		inTown(t, func(o *town) {
			o.runner = func() *fakeConn { return &fakeConn{prepare: failure} }
			template, err := o.template(testProgram())
			if err != nil {
				t.Fatal(err)
			}
			_, err = o.driver.Start(o.Context(), template)
			e := api.From(err)
			if e.Reason != reason || e.Code != code || e.Executed != api.No {
				t.Errorf("got %v", e)
			}
			if left := o.pods(); len(left) != 1 {
				t.Errorf("left: %q", left)
			}
			// What a program says is neither a label nor an Event.
			counted := map[string]float64{reasonProgram: 0, reasonRunner: 1}
			if reason == "import_failed" {
				counted = map[string]float64{reasonProgram: 1, reasonRunner: 0}
			}
			for label, want := range counted {
				if got := testutil.ToFloat64(o.driver.metrics.failures.WithLabelValues(label)); got != want {
					t.Errorf("%s: %v, want %v", label, got, want)
				}
			}
			if n := testutil.CollectAndCount(o.driver.metrics.failures); n != 2 || slices.Contains(o.requests(), "create events") {
				t.Errorf("%d labels; %q", n, o.requests())
			}
		})
	}
	f(api.Errorf(api.Unsandboxable, "no module named x").Because("import_failed"), "import_failed", api.Unsandboxable)
	f(api.Errorf(api.SandboxLost, "it hung up"), reasonRunner, api.NoCapacity)
	f(errHungUp, reasonRunner, api.NoCapacity)
}

// T19: an admission webhook that adds a credential gets the copy destroyed before
// it has anything; one that adds labels and places changes nothing.
func TestCopyIsMutated(t *testing.T) {
	inTown(t, func(o *town) {
		o.kube.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errText(ownPolicy+" with binding 'b' denied request: limits"))
		})
		template, err := o.template(testProgram())
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.driver.Start(o.Context(), template)
		o.refused(err, reasonCopy, api.Unsandboxable)
	})

	f := func(admit func(*corev1.Pod), words string) {
		t.Helper()
		inTown(t, func(o *town) {
			o.schedule = func(p *corev1.Pod) { running1(p); admit(p) }
			template, err := o.template(testProgram())
			if err != nil {
				t.Fatal(err)
			}
			s, err := o.driver.Start(o.Context(), template)
			if words == "" {
				if err != nil {
					t.Error(err)
				} else if err := o.driver.Destroy(o.Context(), s.ID()); err != nil {
					t.Error(err)
				}
				return
			}
			o.refused(err, reasonCopy, api.Unsandboxable)
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("got %v, want %q", err, words)
			}
			if len(o.conns) > 0 || len(o.pods()) != 1 {
				t.Errorf("%d connections; left: %q", len(o.conns), o.pods())
			}
		})
	}
	main := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	f(func(p *corev1.Pod) {
		p.Labels["cost"], p.Annotations["seen"], p.Spec.Tolerations = "42", "yes", append(p.Spec.Tolerations, corev1.Toleration{Key: "x"})
	}, "")
	f(func(p *corev1.Pod) {
		main(p).ImagePullPolicy, p.Spec.InitContainers[0].ImagePullPolicy = corev1.PullAlways, corev1.PullAlways
	}, "")
	f(func(p *corev1.Pod) {
		main(p).Env = append(main(p).Env, corev1.EnvVar{Name: "AWS_ROLE_ARN", Value: "x"})
	}, "env[AWS_ROLE_ARN] was added")
	f(func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "aws-token"})
	}, "volumes[aws-token] was added")
	f(func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "istio-proxy"})
	}, "containers[istio-proxy] was added")
	f(func(p *corev1.Pod) { delete(p.Labels, LabelCopy) }, LabelCopy)
}
