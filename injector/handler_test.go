package injector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"
)

// newHandler knows one namespace, "agents", and keeps up to 20 Events.
func newHandler(t testing.TB) (*handler, *record.FakeRecorder) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	recorder := record.NewFakeRecorder(20)
	return &handler{
		config: func() (Config, error) { return testConfig(), nil },
		namespace: func(_ context.Context, name string, _ bool) (*corev1.Namespace, error) {
			if name != "agents" {
				return nil, errors.New("there is none")
			}
			return enrolled(), nil
		},
		refresh: func(context.Context) error { return nil },
		metrics: m, events: events{recorder}, log: hclog.NewNullLogger(), gate: newGate(),
	}, recorder
}

// review is a body as the API server writes it.
func review(t testing.TB, pod *corev1.Pod, change func(*admissionv1.AdmissionReview)) []byte {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	r := &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "u-1", Namespace: "agents", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: raw},
	}}
	r.APIVersion, r.Kind = "admission.k8s.io/v1", "AdmissionReview"
	r.Request.Kind.Version, r.Request.Kind.Kind = "v1", "Pod"
	if change != nil {
		change(r)
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func post(h http.Handler, body []byte) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mutate", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	h, _ := newHandler(t)
	f := func(body []byte, status int, says string) {
		t.Helper()
		if w := post(h, body); w.Code != status || !strings.Contains(w.Body.String(), says) {
			t.Errorf("the answer is %d: %s", w.Code, w.Body)
		}
	}
	// An agent's pod.
	f(review(t, agent(plain), nil), 200, `"uid":"u-1","allowed":true,"patch":"`)
	// A pod that says no: allowed as it is.
	f(review(t, agent(plain, KeyInject, "false"), nil), 200, `"uid":"u-1","allowed":true,"auditAnnotations":{"reason":"opted_out"`)
	// Bodies that are none.
	f([]byte(`{`), 400, "not an admission review")
	f([]byte(`{}`), 400, "not an admission review")
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.APIVersion = "admission.k8s.io/v1beta1" }), 400, "v1beta1")
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.Request.Kind.Kind = "Secret" }), 400, `of a "Secret"`)
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.Request.Operation = admissionv1.Delete }), 400, `"DELETE"`)
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.Request.UID = "" }), 400, "no uid")
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.Request.Namespace = "" }), 400, "no namespace")
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.Request.Object.Raw = []byte(`{"spec":7}`) }), 400, "not an admission review")
	// A namespace that cannot be read: no decision, so the API server refuses the pod.
	f(review(t, agent(plain), func(r *admissionv1.AdmissionReview) { r.Request.Namespace = "elsewhere" }), 503, `"elsewhere": there is none`)
	// Too large, and by another method or type.
	f(bytes.Repeat([]byte(" "), maxBody+1), 413, "above")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/mutate", nil))
	if w.Code != 405 || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET is answered with %d", w.Code)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mutate", strings.NewReader("a=b"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if h.ServeHTTP(w, r); w.Code != 415 {
		t.Errorf("a form is answered with %d", w.Code)
	}
	// Without an authority there is nothing to give to a sidecar.
	h.config = func() (Config, error) { return Config{}, errors.New("there is no certificate authority yet") }
	f(review(t, agent(plain), nil), 503, "no certificate authority")
	// A panic of ours is an answer.
	h.config = func() (Config, error) { panic("oh") }
	f(review(t, agent(plain), nil), 500, "bug")
	if testutil.ToFloat64(h.metrics.panics) != 1 {
		t.Error("the panic was not counted")
	}
}

// Log, Event and metric say the same word.
func TestReasonsAreTold(t *testing.T) {
	f := func(pod *corev1.Pod, dryRun bool, want result, reason Reason, event string) {
		t.Helper()
		h, recorder := newHandler(t)
		var log bytes.Buffer
		h.log = hclog.New(&hclog.LoggerOptions{Output: &log, Level: hclog.Debug, JSONFormat: true})
		post(h, review(t, pod, func(r *admissionv1.AdmissionReview) { r.Request.DryRun = &dryRun }))
		if n := testutil.ToFloat64(h.metrics.admissions.WithLabelValues(string(want), string(reason))); n != 1 {
			t.Errorf("the metric of %s %s is %v", want, reason, n)
		}
		if !strings.Contains(log.String(), `"reason":"`+string(reason)+`"`) {
			t.Errorf("the log is %s", &log)
		}
		said := ""
		select {
		case said = <-recorder.Events:
		default:
		}
		if event == "" && said != "" || !strings.HasPrefix(said, event) {
			t.Errorf("the Event is %q", said)
		}
	}
	// Injected: no Event.
	f(agent(plain), false, injected, "", "")
	// Somebody wanted it so.
	f(agent(plain, KeyInject, "false"), false, skipped, OptedOut, "Normal SandboxSidecarSkipped opted_out: ")
	// It cannot be; a dry run leaves no Event.
	f(agent(plain+"\nhostNetwork: true"), false, skipped, HostNetwork, "Warning SandboxSidecarSkipped host_network: ")
	f(agent(plain+"\nhostNetwork: true"), true, skipped, HostNetwork, "")
	// A mistake.
	f(agent(plain, KeyInject, "maybe"), false, denied, BadAnnotation, "Warning SandboxSidecarDenied bad_annotation: ")
	// Nothing to tell of the kubelet's own.
	f(agent(plain, corev1.MirrorPodAnnotationKey, "x"), false, skipped, MirrorPod, "")
}

// A pod that another replica has injected, which knew the next authority first, is
// believed once this one has read it, too; without an answer there is no decision.
func TestAuthorityOfThisMoment(t *testing.T) {
	h, _ := newHandler(t)
	c, next := testConfig(), testConfig()
	next.CA += string(ca("B"))
	pod := injectedPod(t, next)
	h.config = func() (Config, error) { return c, nil }
	reads := 0
	f := func(pod *corev1.Pod, read error, want Reason, status, readsMore int) {
		t.Helper()
		reads = 0
		h.refresh = func(context.Context) error {
			if reads++; read == nil {
				c = next
			}
			return read
		}
		_, a, fail := h.consider(t.Context(), "agents", pod)
		switch {
		case fail != nil && (fail.status != status || fail.cause != failAuthority):
			t.Errorf("the failure is %+v", fail)
		case fail == nil && (status != 0 || a.verdict.Reason != want):
			t.Errorf("the answer is %+v", a)
		}
		if reads != readsMore {
			t.Errorf("the authority is read %d times", reads)
		}
	}
	f(pod, errors.New("away"), "", 503, 1)
	f(pod, nil, AlreadyInjected, 0, 1)
	// It is known now; one of an authority that nobody knows is another's.
	f(pod, nil, AlreadyInjected, 0, 0)
	unknown := testConfig()
	unknown.CA = string(ca("C"))
	f(injectedPod(t, unknown), nil, ForeignSidecar, 0, 1)
	// Nothing is read for those that are new.
	f(agent(plain), errors.New("away"), "", 0, 0)
}

// What the API server waits for, with a pod that is larger than people's: the
// figure to look at is p99-ms, which must stay under 50 on an idle machine.
func BenchmarkAdmission(b *testing.B) {
	h, _ := newHandler(b)
	body := review(b, large(), nil)
	b.SetBytes(int64(len(body)))
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if w := post(h, body); w.Code != 200 {
			b.Fatalf("the answer is %d", w.Code)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// large is a pod of 20 containers with 50 variables each.
func large() *corev1.Pod {
	pod := agent(plain)
	pod.Spec.Containers = nil
	for i := range 20 {
		c := corev1.Container{Name: "c" + string(rune('a'+i)), Image: "a"}
		for range 50 {
			c.Env = append(c.Env, corev1.EnvVar{Name: strings.Repeat("N", 20), Value: strings.Repeat("v", 50)})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// Whatever comes in, there is no panic; what is injected is a valid patch, and
// asked again nothing more happens.
func FuzzReview(f *testing.F) {
	f.Add(review(f, agent(plain), nil))
	f.Add(review(f, large(), nil))
	f.Add(review(f, agent(plain, KeyInject, "x", KeyContainers, "main"), nil))
	f.Add([]byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`))
	f.Add([]byte(`{"request":{"object":{"spec":{"containers":[{"env":[{"name":"PYTHONPATH"}]}]}}}}`))
	c := testConfig()
	c.Hook = true
	f.Fuzz(func(t *testing.T, body []byte) {
		_, pod, err := parseReview(body)
		if err != nil {
			return
		}
		a := consider(pod, enrolled(), c)
		if _, err := a.response("u"); err != nil {
			t.Fatal(err)
		}
		if a.result != injected {
			return
		}
		out := apply(t, pod, a.patch)
		if again := consider(out, enrolled(), c); again.verdict.Reason != AlreadyInjected {
			t.Fatalf("asked again: %+v", again)
		}
	})
}
