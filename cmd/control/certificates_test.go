package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/code-sandbox/code-sandbox/cmd/control/pki"
	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

// somebody is an authority with a certificate for a name.
func somebody(t *testing.T, name string) *pki.Authority {
	t.Helper()
	a, err := pki.New(t.Context(), pki.Options{Client: fake.NewClientset(), Namespace: "ns", Name: "ca", Names: []string{name}, Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// laid is the flags of the files with somebody's certificate, and with those to believe.
func laid(t *testing.T, by *pki.Authority, believed []byte) []string {
	t.Helper()
	c, err := by.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder, args := t.TempDir(), []string(nil)
	for name, content := range map[string][]byte{
		"cert": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		"key":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		"ca":   believed,
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--tls-"+name+"="+path)
	}
	return args
}

// The pool serves with no certificate that a sidecar would refuse, also where
// somebody else keeps it.
func TestPoolsGivenCertificate(t *testing.T) {
	one, other, elsewhere := somebody(t, "pool.test"), somebody(t, "pool.test"), somebody(t, "other.test")
	f := func(says string, args []string) {
		t.Helper()
		o, err := parsePool(append([]string{"--namespace=system", "--image=python", "--names=pool.test", "--pod-ip=10.0.0.7"}, args...))
		if err != nil {
			t.Fatal(err)
		}
		_, err = given(o.tls, o.names, hclog.NewNullLogger())
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("the error is %v", err)
		}
	}
	f("", laid(t, one, one.Bundle()))
	f("is not signed by one of", laid(t, one, other.Bundle()))
	f(`is not for "pool.test"`, laid(t, elsewhere, elsewhere.Bundle()))
}

func TestPoolsCertificateFlags(t *testing.T) {
	f := func(says string, args ...string) {
		t.Helper()
		_, err := parsePool(append([]string{"--namespace=system", "--image=python", "--pod-ip=10.0.0.7"}, args...))
		if !errors.Is(err, flags.ErrUsage) || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v", err)
		}
	}
	f("must be set all, or none", "--names=n", "--tls-cert=c", "--tls-key=k")
	f("must be set all, or none", "--names=n", "--tls-ca=a")
	f("must be set all, or none", "--names=n", "--tls-cert=c", "--tls-ca=a")
	f("--names must be set", "--tls-cert=c", "--tls-key=k", "--tls-ca=a")
	f("--names must be set")
}
