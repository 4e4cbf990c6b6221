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
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
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
		CA: func() []byte { return ca }, Refresh: func(context.Context) error { return nil }, Webhook: "code-sandbox", Identity: "replica-1", AuditEvery: time.Hour,
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
		if !strings.Contains(string(answered.Response.Patch), `{\"tool-timeout\":\"17\",\"tools\":\"enforce\"}`) {
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
