package kube

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// P16, P17: whose image it is follows from the token alone; an agent that was
// started anew, moved or ended gets no copy of what it was.
func TestCopyIsOfTheCaller(t *testing.T) {
	inTown(t, func(o *town) {
		template, err := o.template(testProgram())
		if err != nil {
			t.Fatal(err)
		}
		// A caller that was never there, also by a name that another pod has.
		for _, other := range []pool.Caller{callerOf("agents", "agent-2", "uid-1"), callerOf("agents", "agent-1", "uid-2"), callerOf("others", "agent-1", "uid-1"), {Tenant: "agents", Name: "agent-1"}} {
			_, err := o.copies.Template(o.Context(), other, testProgram(), testTemplate())
			o.refused(err, "", api.NoCapacity)
		}
		// Its tag was moved, and then its container was started again.
		moved := strings.Replace(appDigest, "cccc", "dddd", 1)
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Spec.Containers[0].Image = "8", "registry.example/app:moved" })
		if again, err := o.template(testProgram()); err != nil || again.Image != appDigest {
			t.Errorf("%+v, %v", again, err)
		}
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Status.ContainerStatuses[0].ImageID = "9", moved })
		if again, err := o.template(testProgram()); err != nil || again.Image != moved {
			t.Errorf("%+v, %v", again, err)
		}
		_, err = o.driver.Start(o.Context(), template)
		o.refused(err, "", api.NoCapacity)
		// It ends.
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Status.Phase = "10", corev1.PodFailed })
		if gone := <-o.gone; gone != inhabitant {
			t.Errorf("%v is gone", gone)
		}
		_, err = o.template(testProgram())
		o.refused(err, "", api.NoCapacity)
	})
}

// An agent may call before its node has told what it runs.
func TestCopyWaitsForStatus(t *testing.T) {
	f := func(told, took time.Duration, code api.Code) {
		t.Helper()
		inTown(t, func(o *town) {
			o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Status.ContainerStatuses = "8", nil })
			asked, done := time.Now(), make(chan struct{})
			go func() {
				defer close(done)
				time.Sleep(told)
				status := agentPod().Status.ContainerStatuses
				o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Status.ContainerStatuses = "9", status })
			}()
			_, err := o.template(testProgram())
			if waited := time.Since(asked); waited < took || waited > took+time.Second {
				t.Errorf("the answer %v came after %s", err, waited)
			}
			if code == "" && err != nil {
				t.Error(err)
			} else if code != "" {
				o.refused(err, reasonDigest, code)
			}
			<-done
		})
	}
	f(3*time.Second, 3*time.Second, "")
	f(time.Minute, statusBound, api.NoCapacity)
	// Of one that is gone meanwhile nothing more comes.
	inTown(t, func(o *town) {
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Status.ContainerStatuses = "8", nil })
		asked := time.Now()
		time.AfterFunc(time.Second, func() { o.copies.directory.leave("agents") })
		_, err := o.template(testProgram())
		o.refused(err, "", api.NoCapacity)
		if waited := time.Since(asked); waited > 2*time.Second {
			t.Errorf("it was waited for for %s", waited)
		}
	})
}

func TestCopyMemory(t *testing.T) {
	inTown(t, func(o *town) {
		f := func(version, memory string, want int64) {
			t.Helper()
			o.change(func(p *corev1.Pod) {
				p.ResourceVersion, p.Annotations[KeyPolicy] = version, `{"tool-memory":"`+memory+`"}`
			})
			if got, err := o.template(testProgram()); err != nil || got.Limits.MemoryBytes != want {
				t.Errorf("%s: %+v, %v", memory, got.Limits, err)
			}
		}
		f("8", "128Mi", 128<<20)
		f("9", "1Ti", testTemplate().Limits.MemoryBytes)
	})
}

// A policy that opens copies refuses them, and says what to change; once it is
// changed they are made.
func TestCopyPolicies(t *testing.T) {
	inTown(t, func(o *town) {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "allow-all"},
			Spec: networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{}}}}
		policies := o.kube.NetworkingV1().NetworkPolicies("agents")
		if _, err := policies.Create(o.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		_, err := o.template(testProgram())
		o.refused(err, reasonConflict, api.Unsandboxable)
		for _, words := range []string{`"allow-all"`, `"agents"`, "{key: code-sandbox.dev/copy, operator: DoesNotExist}"} {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("%v does not say %q", err, words)
			}
		}
		p.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: LabelCopy, Operator: metav1.LabelSelectorOpDoesNotExist}}
		if _, err := policies.Update(o.Context(), p, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		after(time.Second)
		if _, err := o.template(testProgram()); err != nil {
			t.Error(err)
		}
	})
}

// Where policies cannot be seen, nothing is known of what they open.
func TestCopyPoliciesUnknown(t *testing.T) {
	inTown(t, func(o *town) {
		_, err := o.copies.Template(o.Context(), inhabitant, testProgram(), testTemplate())
		if err != nil {
			t.Fatal(err)
		}
		o.copies.mu.Lock()
		delete(o.copies.policies, "agents")
		o.copies.mu.Unlock()
		_, err = o.template(testProgram())
		o.refused(err, "", api.NoCapacity)
	})
}

// A description is kept for long: it has a bound, as its run has.
func TestCopyIsBounded(t *testing.T) {
	inTown(t, func(o *town) {
		o.copies.opts.Egress = true
		f := func(change func(*wire.Copy)) {
			t.Helper()
			program := testProgram()
			change(program)
			_, err := o.copies.Template(o.Context(), inhabitant, program, testTemplate())
			o.refused(err, "", api.TooLarge)
		}
		long := strings.Repeat("x", maxProgram)
		f(func(c *wire.Copy) { c.Boot = json.RawMessage(`"` + long + `"`) })
		f(func(c *wire.Copy) { c.Container = long })
		f(func(c *wire.Copy) { c.Env = map[string]string{"A": long} })
		f(func(c *wire.Copy) { c.Egress = &wire.Egress{Tool: long} })
		f(func(c *wire.Copy) { c.Egress = &wire.Egress{Tool: "fetch", Hosts: []string{long}} })
		// Nothing, many times.
		f(func(c *wire.Copy) { c.Flags = make([]string, maxProgram/perString) })
		f(func(c *wire.Copy) { c.Egress = &wire.Egress{Hosts: make([]string, maxProgram/perString)} })
		// What one has the pool counts, for its agent.
		if template, err := o.template(testProgram()); err != nil || template.Size != sizeOf(testProgram()) {
			t.Errorf("the template's size is %d, %v", template.Size, err)
		}
	})
	small := &wire.Copy{
		Container: "ab", Python: "/py", Flags: []string{"-I"}, Env: map[string]string{"A": "bc"}, Boot: json.RawMessage(`{}`), Target: json.RawMessage(`{}`),
		Egress: &wire.Egress{Tool: "t", Hosts: []string{"h:1"}},
	}
	if got, want := sizeOf(small), 2+3+(2+16)+(1+2+32)+2+2+1+(3+16); got != want {
		t.Errorf("its size is %d, want %d", got, want)
	}
}

// A label that admission added may put a copy under another policy.
func TestCopyIsClosedAsAdmitted(t *testing.T) {
	inTown(t, func(o *town) {
		template, err := o.template(testProgram())
		if err != nil {
			t.Fatal(err)
		}
		labels := labelsFor(PodConfig{}, template, "")
		open := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "team"}, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"team": "ml"}}, Egress: []networkingv1.NetworkPolicyEgressRule{{}},
		}}
		if err := o.kube.Tracker().Add(open); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // until the watch has it
		if err := o.copies.closed(o.Context(), "agents", labels); err != nil {
			t.Error(err)
		}
		labels["team"] = "ml"
		o.refused(o.copies.closed(o.Context(), "agents", labels), reasonConflict, api.Unsandboxable)
	})
}

// The processor is the node's, asked once; a pool that may not ask goes without.
func TestCopyArch(t *testing.T) {
	f := func(want string, asked int, prepare func(o *town)) {
		t.Helper()
		inTown(t, func(o *town) {
			prepare(o)
			for range 3 {
				template, err := o.template(testProgram())
				if err != nil {
					t.Fatal(err)
				}
				a, failure := o.copies.agentFor(o.Context(), template)
				if failure != nil || a.arch != want {
					t.Errorf("%+v, %v", a, failure)
				}
			}
			n := 0
			for _, r := range o.requests() {
				if r == "get nodes" {
					n++
				}
			}
			if n != asked {
				t.Errorf("nodes were asked for %d times", n)
			}
		})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelArchStable: "arm64"}}}
	f("arm64", 1, func(o *town) {
		if err := o.kube.Tracker().Add(node); err != nil {
			t.Fatal(err)
		}
	})
	f("", 1, func(o *town) {
		o.kube.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "node-1", nil)
		})
	})
	// The pod itself says it.
	f("amd64", 0, func(o *town) {
		o.change(func(p *corev1.Pod) { p.ResourceVersion, p.Spec.NodeSelector[corev1.LabelArchStable] = "8", "amd64" })
	})
}

// A copy that a dead replica has left beside an agent is an orphan like others.
func TestCopyOrphans(t *testing.T) {
	inTown(t, func(o *town) {
		a := testAgent(t, nil)
		left := copyPodFor(testPods().withDefaults(), a, copyTemplate(a), identity{name: "sb-left", replica: "r-dead"})
		left.UID = types.UID("uid-left")
		if err := o.kube.Tracker().Add(left); err != nil {
			t.Fatal(err)
		}
		after(2 * time.Minute)
		if all := o.pods(); len(all) != 1 {
			t.Errorf("left: %q", all)
		}
	})
}
