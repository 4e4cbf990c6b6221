//go:build e2e

package inject

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/proxy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// certificateLife is short, so that many are made while the tests run.
const certificateLife = "30s"

// hurries is an agent that asks from four threads, as fast as sandboxes come.
const hurries = "asks = '''" + asks + "'''" + `
import sys, threading, time
def say(*words, end="\n"):
    sys.stdout.write(" ".join(map(str, words)) + end)
def ask():
    while True:
        try:
            exec(asks, {"print": say})
        except Exception as error:
            say("failed", error, getattr(error, "read", str)())
        time.sleep(0.1)
for _ in range(4):
    threading.Thread(target=ask, daemon=True).start()
time.sleep(600)
`

// P11, under load: while the certificates that pool and injector began with
// end and others take their place, every run is answered and every pod is
// injected, and nobody has been started anew.
func (p *platform) testCertificates(t *testing.T) {
	s := p.agents(t)
	pod := agent(s, "agent", "agent-python")
	pod.Spec.Containers[0].Command[3] = hurries
	s.Create(pod)
	s.Eventually("the agent has its first answer", func(ctx context.Context) error { return logHas(ctx, s, "answer 42") })

	before, parts := p.parts(t), []string{"pool", "injector"}
	first := map[string]*x509.Certificate{}
	for _, part := range parts {
		first[part] = p.certificate(t, part)
		if left := time.Until(first[part].NotAfter); left > 31*time.Second {
			t.Fatalf("the certificate of the %s is good for %s", part, left)
		}
	}
	injections := 0
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		made, err := s.Kube.CoreV1().Pods(s.Name).Create(t.Context(), s.Pod("a", "probe", "sleep"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil || !injected(made) {
			t.Fatalf("after %d pods one is not injected: %v", injections, err)
		}
		injections++
	}
	for _, part := range parts {
		if time.Now().Before(first[part].NotAfter) {
			t.Errorf("the first certificate of the %s is good until %s", part, first[part].NotAfter)
		}
		if now := p.certificate(t, part); now.SerialNumber.Cmp(first[part].SerialNumber) == 0 || time.Now().After(now.NotAfter) {
			t.Errorf("the %s still serves the certificate %s, good until %s", part, now.SerialNumber, now.NotAfter)
		}
	}
	// One whose sidecar meets the later certificates alone.
	s.Create(agent(s, "late", "agent-python"))
	answered(s, "late")
	said := s.Log("agent", "main")
	if strings.Contains(said, "failed") || strings.Count(said, "answer 42") < 10 {
		t.Errorf("the agent has %d answers, and says %s", strings.Count(said, "answer 42"), said)
	}
	if after := p.parts(t); after != before {
		t.Errorf("pool and injector were %s and are %s", before, after)
	}
}

// parts are the pods of pool and injector, and how often each was started.
func (p *platform) parts(t *testing.T) (all string) {
	t.Helper()
	pods, err := p.system.Parts(t.Context(), "pool", "injector")
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			all += fmt.Sprintf("%s %s %d\n", pod.Name, c.Name, c.RestartCount)
		}
	}
	return all
}

// certificate is the one that a part serves with now: always the same replica's,
// so that two of them can be compared.
func (p *platform) certificate(t *testing.T, part string) *x509.Certificate {
	t.Helper()
	pods, err := p.system.Parts(t.Context(), part)
	if err != nil || len(pods) == 0 {
		t.Fatalf("the %s has no pods: %v", part, err)
	}
	c, err := servedBy(t.Context(), p.system, pods[0])
	if err != nil {
		t.Fatalf("cannot see the certificate of the %s: %v", part, err)
	}
	return c
}

func servedBy(ctx context.Context, s *e2e.Space, pod corev1.Pod) (*x509.Certificate, error) {
	dialer, err := proxy.FromURL(&url.URL{Scheme: "socks5", Host: s.Bed.Socks}, proxy.Direct)
	if err != nil {
		return nil, err
	}
	through, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return nil, errors.New("a dialer without a context")
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := through.DialContext(ctx, "tcp", pod.Status.PodIP+":8443")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// It is looked at, not believed.
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client.ConnectionState().PeerCertificates[0], nil
}
