//go:build e2e

package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

// An agent whose tag was moved while it ran has copies of the image that it runs.
func (p *platform) testMovedTag(t *testing.T) {
	const name = "moved/agent"
	wanted := calls(t, call("look", map[string]any{}))
	pod := p.agent("moved", "sh", "-c", "until [ -e /tmp/go ]; do sleep 0.1; done; python3 -u openai_agent.py '"+wanted[3]+"'; sleep 600")
	pod.Spec.Containers[0].Image = p.agents.Tag("agent-code", name+":1")
	p.agents.Create(pod)
	defer p.remove(t, "moved")
	p.agents.WaitReady("moved")
	p.agents.Tag("probe", name+":1") // which has no Python
	p.agents.MustExec("moved", "touch", "/tmp/go")
	r := p.said(t, "moved")
	if s := look(t, r.Said[0]); s.Host == r.Host || len(s.credentialsIn()) > 0 {
		t.Errorf("the tool ran in %s, the agent in %s, with credentials in %q", s.Host, r.Host, s.credentialsIn())
	}
	p.hasCopy(t, "moved", func(c corev1.Pod) bool { return c.Spec.Containers[0].Image == p.byDigest(name) })
}

// An agent whose image nobody pulls without a Secret has copies that are pulled
// with that Secret, which no tool sees. Its image's name is its own, though the
// node has the same image by another one.
func (p *platform) testPrivateImage(t *testing.T) {
	const name = "private/agent"
	image := p.agents.Tag("agent-code", name+":1")
	p.refusesPull(t, image)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "registry"}, Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{
		corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%q:{"username":%q,"password":%q}}}`, cluster.Registry, cluster.PrivateUser, cluster.PrivatePassword)}}
	if _, err := p.agents.Kube.CoreV1().Secrets(p.agents.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// As the admission plugin AlwaysPullImages does: the agent's node has the image
	// already, and would ask nobody for that of a copy.
	defer p.webhook(t, "pulls", []op{{"add", "/spec/containers/0/imagePullPolicy", corev1.PullAlways}})()
	pod := p.agent("private", staying(calls(t, call("look", map[string]any{})))...)
	pod.Spec.Containers[0].Image = image
	pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: secret.Name}}
	p.agents.Create(pod)
	defer p.remove(t, "private")
	r := p.said(t, "private")
	if s := look(t, r.Said[0]); s.Host == r.Host || len(s.credentialsIn()) > 0 {
		t.Errorf("the tool ran in %s, the agent in %s, with credentials in %q", s.Host, r.Host, s.credentialsIn())
	}
	p.hasCopy(t, "private", func(c corev1.Pod) bool {
		return c.Spec.Containers[0].Image == p.byDigest(name) && c.Spec.Containers[0].ImagePullPolicy == corev1.PullAlways
	})
}

// refusesPull shows that a pod without the Secret does not get the image.
func (p *platform) refusesPull(t *testing.T, image string) {
	t.Helper()
	stranger := p.hooks.Pod("stranger", "probe", "sleep")
	stranger.Spec.Containers[0].Image, stranger.Spec.Containers[0].ImagePullPolicy = image, corev1.PullAlways
	p.hooks.Create(stranger)
	p.hooks.WaitPod("stranger", "is refused its image", func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && strings.Contains(w.Reason, "ImagePull") {
				return strings.Contains(w.Message, "authoriz")
			}
		}
		return false
	})
}

// byDigest is the agents' image by digest, in another repository.
func (p *platform) byDigest(repository string) string {
	_, digest, _ := strings.Cut(p.agents.Image("agent-code"), "@")
	return cluster.Registry + "/" + repository + "@" + digest
}

// hasCopy waits until an agent has a copy that is as wanted.
func (p *platform) hasCopy(t *testing.T, agent string, is func(corev1.Pod) bool) {
	t.Helper()
	p.agents.Eventually("a copy of "+agent+" is as it should be", func(ctx context.Context) error {
		list, err := p.copies(ctx)
		if err != nil {
			return err
		}
		var specs []string
		for _, c := range list {
			if ownedBy(c, agent) && is(c) {
				return nil
			}
			raw, err := json.Marshal(c.Spec)
			specs = append(specs, fmt.Sprintf("%v %s %v", c.OwnerReferences, raw, err))
		}
		return fmt.Errorf("the copies are %q", specs)
	})
}

// staying is the command of an agent that stays when all is said: with it its
// copies would go.
func staying(command []string) []string {
	return []string{"sh", "-c", "python3 -u openai_agent.py '" + command[len(command)-1] + "'; sleep 600"}
}

// remove removes an agent at once.
func (p *platform) remove(t *testing.T, name string) {
	t.Helper()
	now := int64(0)
	if err := p.agents.Kube.CoreV1().Pods(p.agents.Name).Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Errorf("cannot remove the agent %q: %v", name, err)
	}
}
