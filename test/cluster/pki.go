package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// keyLife is far longer than a cluster lives, whatever its clock says.
const keyLife = 10 * 365 * 24 * time.Hour

// authority signs what the parts of the cluster know each other by.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key, in PEM.
type pair struct{ cert, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bed"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(keyLife),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("cannot make an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("cannot make an authority: %w", err)
	}
	return &authority{cert: cert, key: key, pem: encode("CERTIFICATE", der)}, nil
}

// sign makes a certificate: of a server when it has hosts, else of a client.
func (a *authority) sign(subject pkix.Name, hosts ...string) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("cannot make a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, fmt.Errorf("cannot make a serial number: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(keyLife),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return pair{}, fmt.Errorf("cannot sign for %q: %w", subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("cannot encode a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

// servers and the names that they are reached by.
var servers = map[string][]string{
	"apiserver": {"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "127.0.0.1", NodeIP, APIIP},
	"kubelet-server": {NodeName, NodeIP},
}

// clients of the API server, and who they are to it.
var clients = map[string]pkix.Name{
	"admin":              {Organization: []string{"system:masters"}, CommonName: "admin"},
	"controller-manager": {CommonName: "system:kube-controller-manager"},
	"scheduler":          {CommonName: "system:kube-scheduler"},
	"kubelet":            {Organization: []string{"system:nodes"}, CommonName: "system:node:" + NodeName},
	"proxy":              {CommonName: "system:kube-proxy"},
	"netpol":             {Organization: []string{"system:masters"}, CommonName: "netpol"},
}

// writeKeys makes every key of the cluster anew, and a kubeconfig for each
// client. The admin's says where this machine finds the API server.
func (b *Bed) writeKeys(api string) error {
	a, err := newAuthority()
	if err != nil {
		return err
	}
	files := map[string][]byte{"pki/ca.crt": a.pem}
	for name, hosts := range servers {
		p, err := a.sign(pkix.Name{Organization: []string{"system:nodes"}, CommonName: "system:node:" + NodeName}, hosts...)
		if err != nil {
			return err
		}
		files["pki/"+name+".crt"], files["pki/"+name+".key"] = p.cert, p.key
	}
	toKubelet, err := a.sign(pkix.Name{Organization: []string{"system:masters"}, CommonName: "apiserver-kubelet"})
	if err != nil {
		return err
	}
	files["pki/apiserver-kubelet.crt"], files["pki/apiserver-kubelet.key"] = toKubelet.cert, toKubelet.key
	for name, subject := range clients {
		p, err := a.sign(subject)
		if err != nil {
			return err
		}
		server, path := apiURL, "etc/"+name+".kubeconfig"
		if name == "admin" {
			server, path = "https://"+api, "kubeconfig"
		}
		if files[path], err = kubeconfig(server, a.pem, p); err != nil {
			return err
		}
	}
	if err := addTokenKeys(files); err != nil {
		return err
	}
	for name, content := range files {
		if err := writeFile(filepath.Join(b.work, name), content, 0o600); err != nil {
			return fmt.Errorf("cannot write keys: %w", err)
		}
	}
	return nil
}

// addTokenKeys adds the keys that service account tokens are signed with.
func addTokenKeys(files map[string][]byte) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	if files["pki/sa.key"], err = encodeKey(key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("cannot encode a key: %w", err)
	}
	files["pki/sa.pub"] = encode("PUBLIC KEY", der)
	return nil
}
