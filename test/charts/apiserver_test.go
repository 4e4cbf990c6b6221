package charts

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	thePool    = "system:serviceaccount:system:code-sandbox-pool"
	aScheduler = "system:kube-scheduler"
	aKubelet   = "system:node:node-1"
	somebody   = "somebody"
)

// cluster is as much of an API server as judges by the chart's policies: the
// very code that it does so with.
type cluster struct{ plugin *validating.Plugin }

// request is what the API server asks its policies about.
type request struct {
	by          string
	does        admission.Operation
	resource    string // pods, or with its subresource pods/status
	now, before runtime.Object
	in          string
}

// newCluster has the policies of the chart, and the namespaces system (the
// platform's), code-sandbox-runs, agents (enrolled) and others.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "agents", Labels: map[string]string{"code-sandbox.dev/enabled": "true"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox-runs"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "others"}},
	}
	for _, o := range render(t, "code-sandbox", "{}") {
		switch o.kind() {
		case "ValidatingAdmissionPolicy":
			objects = append(objects, defaulted(typed(t, o, &admissionregistrationv1.ValidatingAdmissionPolicy{})))
		case "ValidatingAdmissionPolicyBinding":
			objects = append(objects, typed(t, o, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}))
		}
	}
	if len(objects) != 3+2*4 {
		t.Fatalf("the chart has %d policies and bindings", len(objects)-3)
	}
	plugin, err := validating.NewPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	initializer.New(client, dynamicfake.NewSimpleDynamicClient(scheme.Scheme), factory, authorizerfactory.NewAlwaysAllowAuthorizer(),
		utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(), t.Context().Done(), meta.NewDefaultRESTMapper(nil)).Initialize(plugin)
	if err := plugin.ValidateInitialization(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	ready, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	factory.WaitForCacheSync(ready.Done())
	return &cluster{plugin}
}

// defaulted has what the API server writes where the chart says nothing.
func defaulted(p *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.ValidatingAdmissionPolicy {
	m := p.Spec.MatchConstraints
	m.MatchPolicy, m.ObjectSelector = new(admissionregistrationv1.Equivalent), &metav1.LabelSelector{}
	if m.NamespaceSelector == nil {
		m.NamespaceSelector = &metav1.LabelSelector{}
	}
	for i := range m.ResourceRules {
		m.ResourceRules[i].Scope = new(admissionregistrationv1.AllScopes)
	}
	return p
}

func typed[T runtime.Object](t *testing.T, o object, into T) T {
	t.Helper()
	raw, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		t.Fatalf("the %s %s is none: %v", o.kind(), o.name(), err)
	}
	return into
}

// asks is the policies' answer: nil is yes.
func (c *cluster) asks(t *testing.T, r request) error {
	t.Helper()
	resource, sub, _ := strings.Cut(r.resource, "/")
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	if _, ok := r.now.(*corev1.Binding); ok {
		kind.Kind = "Binding"
	}
	attributes := admission.NewAttributesRecord(r.now, r.before, kind, r.in, "a", corev1.SchemeGroupVersion.WithResource(resource), sub, r.does,
		nil, false, &user.DefaultInfo{Name: r.by})
	return c.plugin.Validate(t.Context(), attributes, admission.NewObjectInterfacesFromScheme(scheme.Scheme))
}

// judges fails the test unless the answer is yes, or no in the words that says has.
func (c *cluster) judges(t *testing.T, says string, r request) {
	t.Helper()
	err := c.asks(t, r)
	if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
		t.Errorf("%s %ss %s in %s: the answer is %v", r.by, r.does, r.resource, r.in, err)
	}
}

// golden are the pods in a folder of the product that the name's pattern fits.
func golden(t *testing.T, pattern string) map[string]*corev1.Pod {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pattern))
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]*corev1.Pod{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var p corev1.Pod
		if err := yaml.UnmarshalStrict(raw, &p); err != nil {
			t.Fatalf("%s is no pod: %v", file, err)
		}
		pods[filepath.Base(file)] = &p
	}
	if len(pods) < 3 {
		t.Fatalf("%s has %d pods", pattern, len(pods))
	}
	return pods
}
