package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every template is filled in whole, and names what the plan names.
func TestWriteConfig(t *testing.T) {
	b, err := New(Options{Work: filepath.Join(t.TempDir(), "work"), Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.writeConfig(map[string]string{"pause": "sha256:aa", "netd": "sha256:bb"}); err != nil {
		t.Fatal(err)
	}
	f := func(path, want string) {
		t.Helper()
		raw, err := os.ReadFile(filepath.Join(b.work, path))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "{{") || !strings.Contains(string(raw), want) {
			t.Errorf("%s has no %q:\n%s", path, want, raw)
		}
	}
	f("etc/containerd.toml", "sandbox = '"+Registry+"/pause@sha256:aa'")
	f("etc/kubelet.yaml", "cgroupRoot: /"+b.name+"\n")
	f("etc/system.yaml", "image: "+Registry+"/netd@sha256:bb\n")
	f("etc/proxy.yaml", "clusterCIDR: "+podRange)
	f("etc/cni/10-pods.conflist", `"gateway": "`+podGateway+`"`)
	f("etc/certs.d/"+Registry+"/hosts.toml", "http://"+Registry)
	f("etc/images.json", `"netd:latest":"sha256:bb"`)
}

// Every file that a daemon is told to read is written.
func TestDaemonsFindTheirFiles(t *testing.T) {
	b, err := New(Options{Work: filepath.Join(t.TempDir(), "work"), Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.writeKeys("127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if err := b.writeConfig(map[string]string{"pause": "sha256:aa", "netd": "sha256:bb"}); err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(etc|pki)/[\w.-]+`)
	n := 0
	for _, d := range daemons() {
		for _, file := range named.FindAllString(strings.Join(d.Args, " "), -1) {
			n++
			if _, err := os.Stat(filepath.Join(b.work, file)); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
	}
	if n < 12 {
		t.Errorf("only %d files were found", n)
	}
}

// Keys are good for what they are for, and for nothing else.
func TestKeys(t *testing.T) {
	b, err := New(Options{Work: filepath.Join(t.TempDir(), "work"), Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.writeKeys("127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(filepath.Join(b.work, "pki/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	f := func(name, host string, usage x509.ExtKeyUsage, ok bool) {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(filepath.Join(b.work, "pki", name+".crt"), filepath.Join(b.work, "pki", name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage}})
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	// by its names
	f("apiserver", "kubernetes.default.svc", x509.ExtKeyUsageServerAuth, true)
	f("apiserver", APIIP, x509.ExtKeyUsageServerAuth, true)
	f("kubelet-server", NodeIP, x509.ExtKeyUsageServerAuth, true)
	// by another's
	f("kubelet-server", "kubernetes", x509.ExtKeyUsageServerAuth, false)
	// a client that would be a server
	f("apiserver-kubelet", "", x509.ExtKeyUsageServerAuth, false)
	public, err := os.ReadFile(filepath.Join(b.work, "pki/sa.pub"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(public)
	if _, err := x509.ParsePKIXPublicKey(block.Bytes); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(b.work, "kubeconfig"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kubeconfig: %v, %v", info, err)
	}
}
