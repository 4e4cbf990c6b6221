package main

import (
	"context"
	"crypto/tls"

	"github.com/hashicorp/go-hclog"
	"k8s.io/client-go/kubernetes"

	"github.com/code-sandbox/code-sandbox/cmd/control/pki"
)

// certificates are what the injector proves itself with, and who is told to be
// believed: by the API server in the webhook's configuration, by sidecars for the
// pool.
type certificates interface {
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Bundle() []byte
	// Refresh reads both anew, where replicas share them.
	Refresh(context.Context) error
}

// certificates are those given in files, or else of the authority that all
// replicas share. renew keeps them until its context ends.
func (o *injectorOptions) certificates(ctx context.Context, kube kubernetes.Interface, log hclog.Logger) (own certificates, renew func(context.Context), err error) {
	if o.tls.Cert != "" {
		files, err := given(o.tls, o.names, log)
		return files, func(context.Context) {}, err // somebody else renews them; a change is seen when they are used
	}
	authority, err := pki.New(ctx, pki.Options{Client: kube, Namespace: o.config.Namespace, Name: o.caSecret, Names: o.names,
		CertificateLife: o.certificateLife, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return authority, authority.Run, nil
}

// tlsPartly says whether some of the files are named and some are not.
func tlsPartly(f pki.FilesOptions) bool {
	return (f.Cert == "") != (f.Key == "") || (f.Cert == "") != (f.CA == "")
}

// given is the certificate in files, which must be for all names, and one that
// whoever calls by them will believe.
func given(files pki.FilesOptions, names []string, log hclog.Logger) (*pki.Files, error) {
	files.Names, files.Logger = names, log
	return pki.NewFiles(files)
}
