//go:build e2e

package inject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/cluster"
	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// found is what doctor says in JSON.
type found struct {
	Rows []struct {
		Name, State, Saw, Change string
		Promised                 bool
	}
	Broken []string
}

func (f found) state(name string) string {
	for _, row := range f.Rows {
		if row.Name == name {
			return row.State
		}
	}
	return "not there"
}

// P18, P19: doctor tries everything from inside and finds it closed; with the
// policies of the runs' namespace gone it finds what is open, says which, and
// fails.
func (p *platform) testDoctor(t *testing.T) {
	s := p.agents(t)
	closed, err := p.doctor(t, s)
	if err != nil {
		t.Errorf("doctor fails: %v", err)
	}
	for _, row := range closed.Rows {
		t.Logf("%s: %s: %s", row.Name, row.State, row.Saw)
	}
	want := map[string]string{
		"API server": "protected", "kubelet of a node": "protected", "cloud metadata": "protected", "another pod": "protected", "pool": "protected",
		"service of the agents' namespace": "protected", "internet": "protected", "service account token": "protected",
		"writing outside /work and /tmp": "protected", "name lookups": "protected", "node-local resolver": "not applicable",
		"user namespace": "not protected", "memory": "protected", "number of processes": "protected", "disk": "protected", "closed before code": "protected",
	}
	for name, state := range want {
		if closed.state(name) != state {
			t.Errorf("%s is %s, not %s", name, closed.state(name), state)
		}
	}
	if len(closed.Rows) != len(want) || len(closed.Broken) != 0 {
		t.Errorf("%d rows; broken are %q", len(closed.Rows), closed.Broken)
	}
	p.doctorByHand(t)
	p.openNetwork(t)
	open, err := p.doctor(t, s)
	if err == nil {
		t.Error("doctor does not fail though the network is open")
	}
	for _, name := range []string{"API server", "kubelet of a node", "cloud metadata", "another pod", "pool", "internet", "closed before code"} {
		if open.state(name) != "not protected" {
			t.Errorf("with an open network %s is %s", name, open.state(name))
		}
	}
	if open.state("memory") != "protected" || open.state("service account token") != "protected" {
		t.Errorf("with an open network all is %+v", open.Rows)
	}
	p.mustHelm(t, p.install("upgrade")...)
	p.ready(t)
}

// doctorByHand is the command of the documentation as it stands there, without
// the chart, where Pod Security and a quota are strict; only what is named is
// another.
func (p *platform) doctorByHand(t *testing.T) {
	t.Helper()
	s := p.agents(t)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		"requests.cpu": resource.MustParse("1"), "limits.cpu": resource.MustParse("4"),
		"requests.memory": resource.MustParse("512Mi"), "limits.memory": resource.MustParse("1Gi"),
	}}}
	if _, err := s.Kube.CoreV1().ResourceQuotas(s.Name).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile("(?s)```sh\n(kubectl --namespace agents run doctor .*?)```").FindSubmatch(page)
	if command == nil {
		t.Fatal("the documentation has no command for doctor without the chart")
	}
	here := strings.NewReplacer("--namespace agents", "--namespace "+s.Name, "$IMAGE:$TAG", s.Image("code-sandbox"),
		"code-sandbox-pool.code-sandbox.svc", "code-sandbox-pool."+p.system.Name+".svc --internet="+cluster.WorldIP+":80")
	cmd := exec.CommandContext(t.Context(), "sh", "-c", here.Replace(string(command[1])))
	cmd.Env = append(append(os.Environ(), s.Bed.Env()...), "PATH="+s.Bed.Bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, row := range []string{"API server", "another pod", "pool", "internet", "memory"} {
		if !regexp.MustCompile(`(?m)^` + row + ` +protected `).Match(out) {
			t.Errorf("%s is not protected: %s", row, out)
		}
	}
}

// doctor runs it as a part of "helm test", and reads what it has found. The
// error is helm's.
func (p *platform) doctor(t *testing.T, s *e2e.Space) (f found, failed error) {
	t.Helper()
	out, err := s.Helm(t.Context(), "upgrade", "--install", "agents", e2e.Chart("agent-namespace"), "--set", "doctor.image.ref="+s.Image("code-sandbox"),
		"--set", "platformNamespace="+p.system.Name, "--set", "doctor.internet={"+cluster.WorldIP+":80}", "--set", "doctor.json=true")
	if err != nil {
		t.Fatalf("cannot install: %v: %s", err, out)
	}
	out, failed = s.Helm(t.Context(), "test", "agents", "--logs", "--timeout", "300s")
	_, said, there := strings.Cut(out, "\n{\"isolation\"")
	if !there {
		t.Fatalf("doctor says nothing: %v: %s", failed, out)
	}
	said, _, _ = strings.Cut(said, "\n")
	if err := json.Unmarshal([]byte("{\"isolation\""+said), &f); err != nil {
		t.Fatalf("doctor says %s: %v", out, err)
	}
	return f, failed
}

// openNetwork takes away what keeps sandboxes from the network, and the proof
// that would notice it before any code runs.
func (p *platform) openNetwork(t *testing.T) {
	t.Helper()
	p.mustHelm(t, p.install("upgrade", "--set", "network.proof=false")...)
	p.ready(t)
	policies := p.runs.Kube.NetworkingV1().NetworkPolicies(p.runs.Name)
	for _, name := range []string{"code-sandbox-default-deny", "code-sandbox-dns"} {
		if err := policies.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Sandboxes of the replicas of before are gone: those were shown to be closed.
	p.runs.Eventually("one replica's sandboxes are all that there is", func(ctx context.Context) error {
		pods, err := p.system.Parts(ctx, "pool")
		if err != nil {
			return err
		}
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil {
				return errors.New(pod.Name + " is ending")
			}
		}
		if len(pods) != 2 {
			return fmt.Errorf("there are %d replicas", len(pods))
		}
		return nil
	})
}
