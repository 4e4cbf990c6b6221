package kube

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

const appDigest = "registry.example/app@sha256:cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

// agentPod is an agent with credentials of every kind.
func agentPod() *corev1.Pod {
	secret := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "agents", Name: "agent-1", UID: "uid-1", ResourceVersion: "7",
			Labels: map[string]string{"app": "agent"}, Annotations: map[string]string{"iam.example/role": "admin"},
		},
		Spec: corev1.PodSpec{
			ServiceAccountName: "powerful", NodeName: "node-1", ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
			NodeSelector: map[string]string{"zone": "a"},
			Tolerations: []corev1.Toleration{
				{Key: "agents", Operator: corev1.TolerationOpExists},
				{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(300))},
			},
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(5))},
			Volumes: []corev1.Volume{
				{Name: "keys", VolumeSource: secret("keys")},
				{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
			},
			Containers: []corev1.Container{{
				Name: "app", Image: "registry.example/app:v1", Command: []string{"python", "main.py"},
				Env: []corev1.EnvVar{
					{Name: "API_KEY", Value: "sk-of-the-agent"},
					{Name: "DB", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "url-of-the-agent"}}},
				},
				EnvFrom:      []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "env-of-the-agent"}}}},
				VolumeMounts: []corev1.VolumeMount{{Name: "keys", MountPath: "/keys"}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
			{Name: "app", Image: "registry.example/app:v2", ImageID: appDigest},
		}},
	}
}

// What is kept of an agent's pod has its program and its place, and no secret.
func TestAgent(t *testing.T) {
	kept, err := agentOnly(agentPod())
	if err != nil {
		t.Fatal(err)
	}
	text := kept.(*corev1.Pod).String()
	for _, secret := range []string{"of-the-agent", "keys", "admin"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is kept", secret)
		}
	}
	got, failure := agentOf(kept.(*corev1.Pod), "")
	if failure != nil {
		t.Fatal(failure)
	}
	want := &agent{
		namespace: "agents", pod: "agent-1", uid: "uid-1", container: "app", image: appDigest, node: "node-1",
		pullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, user: 1000, group: 1000,
		tolerations: []corev1.Toleration{{Key: "agents", Operator: corev1.TolerationOpExists}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// P16: the image is what runs, whatever the tag says by now. What has no digest
// is refused, and what has none yet is asked for again.
func TestAgentImage(t *testing.T) {
	f := func(id, want, reason string, code api.Code) {
		t.Helper()
		p := agentPod()
		p.Status.ContainerStatuses[0].ImageID = id
		a, err := agentOf(p, "app")
		if reason == "" {
			if err != nil || a.image != want {
				t.Errorf("got %+v, %v", a, err)
			}
			return
		}
		if err == nil || err.Code != code || err.Reason != reason || err.Executed != api.No || !strings.Contains(err.Message, `"app"`) {
			t.Errorf("got %+v, %v", a, err)
		}
	}
	f(appDigest, appDigest, "", "")
	f("docker-pullable://"+appDigest, appDigest, "", "")
	// An image that was loaded into the node by hand.
	f("sha256:"+strings.Repeat("d", 64), "", reasonDigest, api.Unsandboxable)
	// Its container has not started yet.
	f("", "", reasonDigest, api.NoCapacity)
}

// The pod's pull secrets are for the name that the pod has the image by; its node
// may have the same image by others, and tells any of them.
func TestAgentImageByItsName(t *testing.T) {
	digest, pinned := "@sha256:"+strings.Repeat("e", 64), "@sha256:"+strings.Repeat("f", 64)
	f := func(image, name, want string) {
		t.Helper()
		p := agentPod()
		p.Spec.Containers[0].Image, p.Status.ContainerStatuses[0].ImageID = image, name+digest
		if a, err := agentOf(p, "app"); err != nil || a.image != want {
			t.Errorf("got %+v, %v", a, err)
		}
	}
	f("registry.example/app:v1", "registry.example/app", "registry.example/app"+digest)
	f("registry.example/app:v1", "registry.example/staging/app", "registry.example/app"+digest)
	f("registry.example/app:v1", "cache.example/registry.example/app", "registry.example/app"+digest)
	f("registry.example:5000/app", "other.example/app", "registry.example:5000/app"+digest)
	// A short name is for the node to make whole, as it did for the pod.
	f("python:3.12", "docker.io/library/python", "python"+digest)
	f("team/app", "cache.example/team/app", "team/app"+digest)
	// A digest in the pod is the one of its own repository; another repository may
	// have the same image by another one.
	f("registry.example/app:v1"+pinned, "other.example/app", "registry.example/app"+pinned)
	f("registry.example/app"+pinned, "registry.example/app", "registry.example/app"+pinned)
	// An image that is named by what it is.
	f("sha256:"+strings.Repeat("d", 64), "registry.example/app", "registry.example/app"+digest)
}

func TestAgentContainer(t *testing.T) {
	f := func(name, want string, names ...string) {
		t.Helper()
		p := agentPod()
		for _, other := range names {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: other})
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: other, ImageID: appDigest})
		}
		a, err := agentOf(p, name)
		switch {
		case want != "" && (err != nil || a.container != want):
			t.Errorf("got %+v, %v", a, err)
		case want == "" && (err == nil || err.Reason != reasonContainers || err.Code != api.Unsandboxable):
			t.Errorf("got %+v, %v", a, err)
		}
	}
	f("", "app")
	f("app", "app")
	f("worker", "worker", "worker")
	// One of several that is not named, and one that is not there.
	f("", "", "worker")
	f("other", "")
	f(strings.Repeat("x", 1000), "")
}

// An agent's policy gives its copies less memory than the pool would, never more.
func TestAgentMemory(t *testing.T) {
	f := func(policy string, want int64) {
		t.Helper()
		p := agentPod()
		p.Annotations[KeyPolicy] = policy
		kept, err := agentOnly(p)
		if err != nil {
			t.Fatal(err)
		}
		a, failure := agentOf(kept.(*corev1.Pod), "app")
		if failure != nil || a.memory != want {
			t.Errorf("%s: %+v, %v", policy, a, failure)
		}
	}
	f(`{"tools":"enforce","tool-memory":"256Mi"}`, 256<<20)
	f(`{"tools":"enforce"}`, 0)
	f(`{"tool-memory":"much"}`, 0)
	f(`{"tool-memory":"-1"}`, 0)
	f(`no`, 0)
}

func TestAgentUser(t *testing.T) {
	f := func(change func(p *corev1.Pod), user, group int64) {
		t.Helper()
		p := agentPod()
		p.Spec.SecurityContext = nil
		change(p)
		if u, g := userOf(p, &p.Spec.Containers[0]); u != user || g != group {
			t.Errorf("got %d:%d", u, g)
		}
	}
	status := func(uid, gid int64) *corev1.ContainerUser {
		return &corev1.ContainerUser{Linux: &corev1.LinuxContainerUser{UID: uid, GID: gid}}
	}
	// Nobody says.
	f(func(*corev1.Pod) {}, 0, 0)
	// The image's own user, as the node tells it; root is nobody's to copy.
	f(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].User = status(1001, 1002) }, 1001, 1002)
	f(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].User = status(0, 0) }, 0, 0)
	f(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].User = status(1001, 0) }, 1001, 1001)
	// The pod's, and the container's over it.
	f(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(5)), RunAsGroup: new(int64(6))}
	}, 5, 6)
	f(func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(5)), RunAsGroup: new(int64(6))}
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(7))}
	}, 7, 6)
}
