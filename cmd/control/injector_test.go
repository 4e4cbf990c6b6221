package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
)

func TestParseInjector(t *testing.T) {
	needed := []string{"--namespace=cs", "--image=i", "--pool=p:8443", "--names=n", "--identity=a"}
	f := func(says string, more ...string) injectorOptions {
		t.Helper()
		o, err := parseInjector(append(needed[:len(needed):len(needed)], more...))
		if says == "" && err != nil || says != "" && (!errors.Is(err, flags.ErrUsage) || !strings.Contains(err.Error(), says)) {
			t.Errorf("the error is %v", err)
		}
		return o
	}
	// The least there can be.
	o := f("")
	if o.config.Deny || o.config.Requests.Memory().String() != "24Mi" || o.config.UID != 8900 {
		t.Errorf("the defaults are %+v", o.config)
	}
	// What the chart sets.
	o = f("", "--cannot-inject=deny", "--sidecar-memory-limit=1Gi", "--pull-secrets=a,b", "--hook=true")
	if !o.config.Deny || o.config.Limits.Memory().String() != "1Gi" || len(o.config.PullSecrets) != 2 || !o.config.Hook {
		t.Errorf("the options are %+v", o.config)
	}
	o = f("", "--tls-cert=c", "--tls-key=k", "--tls-ca=a")
	if o.tls.Cert != "c" || o.tls.Key != "k" || o.tls.CA != "a" {
		t.Errorf("the certificate is %+v", o.tls)
	}
	// What cannot be.
	f("must be set all, or none", "--tls-cert=c", "--tls-key=k")
	f("must be set all, or none", "--tls-ca=a")
	f("--cannot-inject is", "--cannot-inject=maybe")
	f("--sidecar-cpu-limit is", "--sidecar-cpu-limit=much")
	f("no more than the second", "--sidecar-cpu-limit=1m")
	f("--audit-every is 0s", "--audit-every=0s")
	f("--certificate-life is 9s; it must be 10s or more", "--certificate-life=9s")
	f("user id is 0", "--sidecar-uid=0")
	f("pull policy", "--pull-policy=Often")
	f("is not a flag", "word")
	f("code-sandbox.dev/tools is \"strict\"", `--policy={"tools":"strict"}`)
	f(`the default policy has "mode"`, `--policy={"mode":"audit"}`)
	f("cannot unmarshal", `--policy={"tool-timeout":30}`)
	f("the image is", "--image=")
	f("--names must be set", "--names=")
}
