//go:build e2e

// Package copies tests tool calls in copies of agents on a real cluster, as far
// as the pool makes them: agents in pods, a pool, and copies of their images.
package copies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// The credential of these tests; the program is given the first letters only.
const (
	keyPrefix = "sk-e2e-"
	key       = "sk-e2e-of-the-agent"
)

// TestCopies installs the charts once, and everything else is a part of it.
func TestCopies(t *testing.T) { install(t, "").all(t) }

// TestCopiesInGVisor is the same with the copies on another runtime.
func TestCopiesInGVisor(t *testing.T) { install(t, "gvisor").all(t) }

func (p *platform) all(t *testing.T) {
	p.runWith(t, "NoCredentials", testNoCredentials)
	p.runWith(t, "Volumes", testVolumes)
	p.runWith(t, "Images", testImages)
	p.runWith(t, "Policy", testPolicy)
}

func (p *platform) runWith(t *testing.T, name string, test func(t *testing.T, p *platform)) {
	t.Run(name, func(t *testing.T) {
		own := *p
		own.t = t
		test(t, &own)
	})
}

// withSecret gives a pod a Secret in every way that there is.
func withSecret(pod *corev1.Pod) {
	c := &pod.Spec.Containers[0]
	ref := corev1.LocalObjectReference{Name: "keys"}
	c.Env = []corev1.EnvVar{
		{Name: "API_KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref, Key: "key"}}},
		{Name: "PLAIN_KEY", Value: key},
	}
	c.EnvFrom = []corev1.EnvFromSource{{Prefix: "FROM_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref}}}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "keys", MountPath: "/etc/keys", ReadOnly: true}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}}}
}

// The program finds the credentials in the agent, and none of them in its copy,
// which is the same image and closed; each call has a copy of its own, and none
// outlives its agent.
func testNoCredentials(t *testing.T, p *platform) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, StringData: map[string]string{"key": key}}
	if _, err := p.agents.Kube.CoreV1().Secrets(p.agents.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a := p.start("agent", "agent-hunt", "/usr/bin/python3", withSecret)
	inAgent := p.agents.MustExec("agent", "/usr/bin/python3", "-c", "import sys; sys.path.insert(0, '/home/app'); import tools; print(tools.hunt('sk-e2e-'))")
	for _, where := range []string{"env API_KEY", "env PLAIN_KEY", "env FROM_key", "env BAKED_KEY", "file /etc/keys/", "file /home/app/.env",
		"file /home/app/deep/er/.env.prod", "file /home/app/.ENV/keys", "file /home/app/certs/TLS.key", "file /home/app/.cache/token", "file /home/nonroot/.aws/credentials"} {
		if !strings.Contains(inAgent, where) {
			t.Errorf("the agent itself does not find %q, and so the copy shows nothing: %s", where, inAgent)
		}
	}
	hunt := a.program("/home/app", "tools", "hunt")
	found, first := a.value(hunt, keyPrefix)
	if found != "[]" {
		t.Errorf("the copy finds credentials in %s", found)
	}
	if first.Isolation != p.isolation || first.Warm {
		t.Errorf("%+v", first)
	}
	copies := p.copies(t)
	if len(copies) == 0 || copies[0].OwnerReferences[0].UID != a.pod.UID || copies[0].Spec.Containers[0].Image != p.agents.Image("agent-hunt") {
		t.Errorf("the copies are %+v", copies)
	}
	p.agents.Eventually("a copy is warm", func(context.Context) error {
		found, next := a.value(hunt, keyPrefix)
		if found != "[]" || next.SandboxID == first.SandboxID {
			t.Errorf("found %s in %s, after %s", found, next.SandboxID, first.SandboxID)
		}
		if !next.Warm {
			return errors.New("it was not")
		}
		t.Logf("warm: queued %.1f ms, claimed in %.1f ms, ran for %.1f ms", next.Timing.QueueMS, next.Timing.ClaimMS, next.Timing.RunMS)
		return nil
	})
	now := int64(0)
	if err := p.agents.Kube.CoreV1().Pods(p.agents.Name).Delete(t.Context(), "agent", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	p.agents.Eventually("the copies of an agent that is gone are gone", func(context.Context) error {
		if left := p.copies(t); len(left) > 0 {
			return fmt.Errorf("%d are left", len(left))
		}
		return nil
	})
}

// volumes are the VOLUMEs of the image agent-hunt: by itself, inside of /tmp, which
// is mounted too, and inside of a folder that is hidden for what else is in it.
var volumes = []string{"/data", "/tmp/cache", "/home/app/.cache/models"}

// A VOLUME of the image is on the node's disk in the agent; in a copy it is a part
// of the copy's own disk, wherever it stands: as large, and full with it.
func testVolumes(t *testing.T, p *platform) {
	a := p.start("volumes", "agent-hunt", "/usr/bin/python3", nil)
	const disk = "268435456"
	size, fill, room := a.program("/home/app", "tools", "size"), a.program("/home/app", "tools", "fill"), a.program("/home/app", "tools", "room")
	for _, place := range volumes {
		inAgent := p.agents.MustExec("volumes", "/usr/bin/python3", "-c", "import sys; sys.path.insert(0, '/home/app'); import tools; print(tools.size('"+place+"'))")
		if strings.TrimSpace(inAgent) == disk {
			t.Errorf("in the agent %s has %s bytes, and so the copy shows nothing", place, inAgent)
		}
		if got, _ := a.value(size, place); got != disk {
			t.Errorf("in the copy %s has %s bytes", place, got)
		}
		got, _ := a.value(fill, place)
		var full struct {
			Bytes int64
			Why   string
		}
		if err := json.Unmarshal([]byte(got), &[]any{&full.Bytes, &full.Why}); err != nil || full.Bytes > 256<<20 || full.Why == "" {
			t.Errorf("%s: %s, %v", place, got, err)
		}
		got, _ = a.value(room, place, append([]string{"/tmp"}, volumes...))
		var left []int64
		if err := json.Unmarshal([]byte(got), &left); err != nil || !slices.Equal(left, []int64{0, 0, 0, 0}) {
			t.Errorf("when %s is full, there is room left: %s, %v", place, got, err)
		}
	}
}

// copies are the pods of copies beside the agents.
func (p *platform) copies(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := p.agents.Kube.CoreV1().Pods(p.agents.Name).List(t.Context(), metav1.ListOptions{LabelSelector: "code-sandbox.dev/copy=true"})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// P15: images without a shell, with another libc and of a user by name run; one
// without Python is refused by name.
func testImages(t *testing.T, p *platform) {
	f := func(name, image, python string, change func(*corev1.Pod)) {
		t.Helper()
		a := p.start(name, image, python, change)
		if got, _ := a.value(a.program("/", "textwrap", "dedent"), "  a"); got != `"a"` {
			t.Errorf("%s: %s", image, got)
		}
	}
	f("bare", "agent-bare", "/usr/bin/python3", nil)
	f("musl", "agent-musl", "/usr/bin/python3", nil)
	f("named", "agent-named", "/usr/bin/python3", nil)

	a := p.start("none", "probe", "/usr/bin/python3", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Command, pod.Spec.Containers[0].Args = nil, []string{"sleep"}
	})
	program := p.start("other", "agent-bare", "/usr/bin/python3", nil).program("/", "textwrap", "dedent")
	_, err := a.call(program, "a")
	refused(t, err, "interpreter_missing", `no interpreter at "/usr/bin/python3"`)
}

func refused(t *testing.T, err error, reason, words string) {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.Unsandboxable || e.Reason != reason || e.Executed != api.No || !strings.Contains(e.Message, words) {
		t.Errorf("got %v; want %s, with %q", err, reason, words)
	}
}

// A policy that opens the namespace's pods is told, until it leaves copies out.
func testPolicy(t *testing.T, p *platform) {
	a := p.start("opened", "agent-hunt", "/usr/bin/python3", nil)
	add := a.program("/home/app", "tools", "add")
	policies := p.agents.Kube.NetworkingV1().NetworkPolicies(p.agents.Name)
	all := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "allow-all"}, Spec: networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}, Egress: []networkingv1.NetworkPolicyEgressRule{{}}}}
	all, err := policies.Create(t.Context(), all, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var last error
	err = e2e.Within(t.Context(), e2e.Patience, func(context.Context) error {
		if _, last = a.call(add, 40, 2); last == nil {
			return errors.New("the call ran")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, last, "policy_conflict", `"allow-all"`)
	all.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "code-sandbox.dev/copy", Operator: metav1.LabelSelectorOpDoesNotExist}}
	if _, err := policies.Update(t.Context(), all, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.agents.Eventually("the policy leaves copies out", func(context.Context) error {
		_, err := a.call(add, 40, 2)
		return err
	})
	if got, _ := a.value(add, 40, 2); got != "42" {
		t.Errorf("got %s", got)
	}
}
