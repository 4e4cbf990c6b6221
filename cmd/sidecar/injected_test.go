package main

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/injector"
)

// injectedEnv is what the injector tells a sidecar.
func injectedEnv(t *testing.T, policy injector.Policy) map[string]string {
	t.Helper()
	c := injector.DefaultConfig()
	c.Image, c.Pool, c.CA, c.Hook = "i", "pool:8443", "PEM", true
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	env := map[string]string{}
	for _, op := range injector.Mutate(pod, c, policy) {
		list, _ := op.Value.([]any)
		for _, v := range list {
			if made, ok := v.(corev1.Container); ok && made.Name == injector.SidecarName {
				for _, e := range made.Env {
					env[e.Name] = e.Value
				}
			}
		}
	}
	if len(env) == 0 {
		t.Fatal("there is no sidecar")
	}
	return env
}

// Every variable that the sidecar reads is set by the injector, to empty where
// the policy says nothing: then its defaults hold.
func TestInjectorSetsEveryVariable(t *testing.T) {
	env := injectedEnv(t, nil)
	for name, value := range env {
		t.Setenv(name, value)
	}
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	new(options).flags().VisitAll(func(f *flag.Flag) {
		name := "CODE_SANDBOX_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		known[name] = true
		if _, ok := env[name]; !ok {
			t.Errorf("nobody sets %s: the pod could", name)
		}
	})
	for name := range env {
		if strings.HasPrefix(name, "CODE_SANDBOX_") && !known[name] {
			t.Errorf("nobody reads %s", name)
		}
	}
	for name := range env {
		t.Setenv(name, "")
	}
	want, err := parse([]string{"--pool=pool:8443", "--pool-ca=PEM", "--token-file=" + o.tokenFile})
	if err != nil || !reflect.DeepEqual(o, want) {
		t.Errorf("it is told %+v, and by default is %+v: %v", o, want, err)
	}
}
