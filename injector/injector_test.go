package injector

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
)

func webhook() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "code-sandbox", ResourceVersion: "7"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "a"}, {Name: "b"}}}
}

func selfSigned(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"injector"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// eventually bounds what the informers of the fake API take.
func eventually(t *testing.T, what string, is func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// The whole: it becomes ready once the API server can know it, injects over TLS,
// writes the authority again when somebody takes it, and leaves in order.
func TestInjector(t *testing.T) {
	kube := fake.NewClientset(webhook(), enrolled(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: PolicyMap, Namespace: "agents"},
		Data: map[string]string{"tool-timeout": "17"}})
	cert, ca := selfSigned(t)
	o := Options{
		Config: testConfig(), Kube: kube, Listen: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
		CA: func() []byte { return ca }, Webhook: "code-sandbox", Identity: "replica-1", AuditEvery: time.Hour,
		Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(),
	}
	i, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if i.Ready() == nil {
		t.Error("it is ready before it runs")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	eventually(t, "it is ready", i.Ready)

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "injector"}}}
	defer client.CloseIdleConnections()
	ask := func() error {
		resp, err := client.Post("https://"+i.Addr().String()+"/mutate", "application/json", bytes.NewReader(review(t, agent(plain), nil)))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var answered struct{ Response struct{ Patch []byte } }
		if err := json.NewDecoder(resp.Body).Decode(&answered); err != nil {
			return err
		}
		if !strings.Contains(string(answered.Response.Patch), `{\"mode\":\"enforce\",\"tool-timeout\":\"17\"}`) {
			return fmt.Errorf("the patch is %s", answered.Response.Patch)
		}
		return nil
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	hooks := kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	has := func() error {
		w, err := hooks.Get(ctx, "code-sandbox", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, h := range w.Webhooks {
			if !bytes.Equal(h.ClientConfig.CABundle, ca) {
				return errors.New("webhook " + h.Name + " has another authority")
			}
		}
		return nil
	}
	eventually(t, "the authority is written", has)
	// As an upgrade of the chart by force would.
	if _, err := hooks.Update(ctx, webhook(), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the authority is written again", has)

	stop()
	eventually(t, "it is not ready", func() error {
		if i.Ready() == nil {
			return errors.New("it is")
		}
		return nil
	})
	if err := ask(); err != nil {
		t.Errorf("it left before the API server could know: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if testutil.ToFloat64(i.metrics.admissions.WithLabelValues("injected", "")) != 2 {
		t.Error("the admissions were not counted")
	}
}

func TestNewRefuses(t *testing.T) {
	good := Options{Config: testConfig(), Kube: fake.NewClientset(), Listen: "127.0.0.1:0", Webhook: "w", Identity: "i", AuditEvery: time.Hour,
		Logger: hclog.NewNullLogger()}
	f := func(change func(*Options), says string) {
		t.Helper()
		o := good
		o.Registry = prometheus.NewRegistry()
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v", err)
		}
	}
	// Each field that must be set, and an address that is none.
	f(func(o *Options) { o.Config.Image = "" }, "the image is")
	f(func(o *Options) { o.AuditEvery = 0 }, "time between audits")
	f(func(o *Options) { o.Webhook = "" }, "the webhook's name")
	f(func(o *Options) { o.Listen = "nowhere" }, `cannot listen on "nowhere"`)
}

func TestBundleOps(t *testing.T) {
	f := func(has []string, ca string, want int) {
		t.Helper()
		w := webhook()
		for i, h := range has {
			w.Webhooks[i].ClientConfig.CABundle = []byte(h)
		}
		if ops := bundleOps(w, []byte(ca)); len(ops) != want {
			t.Errorf("the operations are %v", ops)
		}
	}
	// Both are missing, one, none; the test of the version comes with the first.
	f([]string{"", ""}, "new", 3)
	f([]string{"new", "old"}, "new", 2)
	f([]string{"new", "new"}, "new", 0)
	// No authority: what is there stays.
	f([]string{"old", "old"}, "", 0)
}

// A write that is refused is tried again, until it is made.
func TestBundleRetries(t *testing.T) {
	kube := fake.NewClientset(webhook())
	var refused atomic.Int32
	kube.PrependReactor("patch", "mutatingwebhookconfigurations", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refused.Add(1) == 1, nil, errors.New("conflict")
	})
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{kube: kube, name: "code-sandbox", ca: func() []byte { return []byte("ca") }, metrics: m, log: hclog.NewNullLogger()}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); b.run(ctx) }()
	eventually(t, "it is written", func() error {
		if !b.written.Load() {
			return errors.New("it is not")
		}
		return nil
	})
	stop()
	<-done
	if testutil.ToFloat64(m.bundles.WithLabelValues("failed")) != 1 || testutil.ToFloat64(m.bundles.WithLabelValues("ok")) < 1 {
		t.Error("the writes were not counted")
	}
}

func TestAudit(t *testing.T) {
	in := func(name string, pod *corev1.Pod) *corev1.Pod {
		pod.Name, pod.UID, pod.Namespace = name, types.UID(name), "agents"
		return pod
	}
	ended := in("ended", agent(plain))
	ended.Status.Phase = corev1.PodSucceeded
	elsewhere := agent(plain)
	elsewhere.Name, elsewhere.Namespace = "elsewhere", "other"
	kube := fake.NewClientset(enrolled(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}},
		in("missed", agent(plain)), in("asked", agent(plain, KeyInject, "false")), in("host", agent(plain+"\nhostNetwork: true")),
		in("fine", agent(`{containers: [{name: main}], initContainers: [{name: code-sandbox-sidecar}]}`, KeyInjected, "x")), ended, elsewhere)
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	recorder := record.NewFakeRecorder(20)
	a := &audit{kube: kube, every: time.Hour, config: func() (Config, error) { return testConfig(), nil }, metrics: m,
		events: events{recorder}, log: hclog.NewNullLogger()}
	counts := func(missed, asked, host float64) {
		t.Helper()
		for r, want := range map[Reason]float64{Missed: missed, OptedOut: asked, HostNetwork: host} {
			if got := testutil.ToFloat64(m.audited.WithLabelValues(string(r))); got != want {
				t.Errorf("%s is %v, not %v", r, got, want)
			}
		}
	}
	for range 2 { // the second time there is nothing new to tell
		if err := a.once(t.Context()); err != nil {
			t.Fatal(err)
		}
		counts(1, 1, 1)
	}
	if n := len(recorder.Events); n != 2 {
		t.Errorf("there are %d Events", n)
	}
	// A failure leaves the counts as they were.
	kube.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
	if err := a.once(t.Context()); err == nil || !strings.Contains(err.Error(), `cannot list the pods of "agents": no`) {
		t.Errorf("the error is %v", err)
	}
	counts(1, 1, 1)
}

// A namespace's annotations stand over its ConfigMap, key by key; one that the
// watch has not seen is asked for.
func TestPolicyOfNamespaces(t *testing.T) {
	ns := enrolled()
	ns.Annotations = map[string]string{Prefix + "mode": "audit", "other": "x"}
	got := withPolicy(ns, map[string]string{"mode": "off", "first-party": "ours"})
	want := map[string]string{Prefix + "mode": "audit", Prefix + "first-party": "ours", "other": "x"}
	if !maps.Equal(got.Annotations, want) || len(ns.Annotations) != 2 {
		t.Errorf("the annotations are %v, and were %v", got.Annotations, ns.Annotations)
	}
}
