package charts

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A certificate that is given is mounted into pool and injector, whole, so that
// a change of its Secret comes; nobody then has a right to any Secret.
func TestGivenCertificates(t *testing.T) {
	all := render(t, "code-sandbox", "tls: {existingSecret: from-cert-manager}")
	f := func(part string, flags ...string) {
		t.Helper()
		pod := podsOf(all)["Deployment/code-sandbox-"+part]
		volume := []any{map[string]any{"name": "tls", "secret": map[string]any{"secretName": "from-cert-manager", "defaultMode": float64(0o440)}}}
		c := object(pod.at("containers").([]any)[0].(map[string]any))
		mount := []any{map[string]any{"name": "tls", "mountPath": "/etc/code-sandbox/tls", "readOnly": true}}
		if !reflect.DeepEqual(pod.at("volumes"), volume) || !reflect.DeepEqual(c.at("volumeMounts"), mount) {
			t.Errorf("the %s has the volumes %v, mounted as %v", part, pod.at("volumes"), c.at("volumeMounts"))
		}
		var given []string
		for _, arg := range c.at("args").([]any) {
			if strings.HasPrefix(arg.(string), "--tls-") {
				given = append(given, arg.(string))
			}
		}
		if !slices.Equal(given, flags) {
			t.Errorf("the %s is given %q", part, given)
		}
	}
	for _, part := range []string{"pool", "injector"} {
		f(part, "--tls-cert=/etc/code-sandbox/tls/tls.crt", "--tls-key=/etc/code-sandbox/tls/tls.key", "--tls-ca=/etc/code-sandbox/tls/ca.crt")
	}
	for _, o := range all {
		if o.kind() == "Secret" || o.name() == "code-sandbox-certificates" {
			t.Errorf("there still is the %s %s", o.kind(), o.name())
		}
	}
	for _, o := range render(t, "code-sandbox", "{}") {
		if o.kind() == "Deployment" && (o.at("spec", "template", "spec", "volumes") != nil || strings.Contains(strings.Join(texts(map[string]any(o)), " "), "--tls-")) {
			t.Errorf("%s is given a certificate, though nobody asked for it", o.name())
		}
	}
}
