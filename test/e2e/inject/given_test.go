//go:build e2e

package inject

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// somebodysAuthority signs in place of cert-manager.
type somebodysAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *somebodysAuthority {
	t.Helper()
	a := &somebodysAuthority{}
	a.cert, a.key = a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate, its own when it has none yet.
func (a *somebodysAuthority) sign(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, c.NotBefore, c.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	by, with := a.cert, a.key
	if by == nil {
		by, with = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

func inPEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue is the content of a Secret for pool and injector, whose authority is
// believed beside others.
func (p *platform) issue(t *testing.T, by *somebodysAuthority, believed ...*somebodysAuthority) (secret map[string][]byte, serial *big.Int) {
	t.Helper()
	leaf, key := by.sign(t, &x509.Certificate{
		DNSNames: []string{"code-sandbox-pool." + p.system.Name + ".svc", "code-sandbox-injector." + p.system.Name + ".svc"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, a := range believed {
		all = append(all, inPEM("CERTIFICATE", a.cert.Raw)...)
	}
	return map[string][]byte{"tls.crt": inPEM("CERTIFICATE", leaf.Raw), "tls.key": inPEM("PRIVATE KEY", der), "ca.crt": all}, leaf.SerialNumber
}

// Pool and injector serve with a Secret of somebody else, and follow it to
// another certificate and another authority without a restart, under an agent
// that asks all the while.
func (p *platform) testGivenCertificates(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	secrets := p.system.Kube.CoreV1().Secrets(p.system.Name)
	content, serial := p.issue(t, first, first, second)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "given"}, Type: corev1.SecretTypeTLS, Data: content}
	secret, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.mustHelm(t, p.install("upgrade", "--set", "tls.existingSecret=given")...)
	p.ready(t)
	p.serves(t, serial, content["ca.crt"])
	if _, err := secrets.Get(t.Context(), "code-sandbox-ca", metav1.GetOptions{}); err == nil {
		t.Error("there still is an authority of our own")
	}
	s := p.agents(t)
	pod := agent(s, "agent", "agent-python")
	pod.Spec.Containers[0].Command[3] = keepsAsking
	s.Create(pod)
	s.Eventually("the agent has its first answer", func(ctx context.Context) error { return logHas(ctx, s, "answer 42") })

	before := p.parts(t)
	secret.Data, serial = p.issue(t, second, second)
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.serves(t, serial, secret.Data["ca.crt"])
	s.Create(agent(s, "late", "agent-python"))
	answered(s, "late")
	answersSoFar := strings.Count(s.Log("agent", "main"), "answer 42")
	s.Eventually("the agent goes on having answers", func(context.Context) error {
		if said := s.Log("agent", "main"); strings.Contains(said, "failed") || strings.Count(said, "answer 42") < answersSoFar+3 {
			return fmt.Errorf("it says %s", said)
		}
		return nil
	})
	if after := p.parts(t); after != before {
		t.Errorf("pool and injector were %s and are %s", before, after)
	}
	p.mustHelm(t, p.install("upgrade")...)
	p.ready(t)
	if err := secrets.Delete(t.Context(), "given", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// serves waits until every replica serves with that certificate, and the API
// server is told to believe those authorities.
func (p *platform) serves(t *testing.T, serial *big.Int, believed []byte) {
	t.Helper()
	err := e2e.Within(t.Context(), 2*time.Minute, func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool", "injector")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			c, err := servedBy(ctx, p.system, pod)
			if err != nil {
				return err
			}
			if c.SerialNumber.Cmp(serial) != 0 {
				return fmt.Errorf("%s serves the certificate %s of %s", pod.Name, c.SerialNumber, c.Issuer.CommonName)
			}
		}
		w, err := p.system.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "code-sandbox", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !bytes.Equal(w.Webhooks[0].ClientConfig.CABundle, believed) {
			return errors.New("the webhook's authority is another")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
