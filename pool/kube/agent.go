package kube

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// agent is all that copies take over from the pod of the agent whom they are
// made for: which program, where it may run, and as whom.
type agent struct {
	namespace, pod string
	uid            types.UID
	container      string
	image          string // by digest: what the container runs, whatever its tag says by now
	pullSecrets    []corev1.LocalObjectReference
	tolerations    []corev1.Toleration
	node, arch     string // arch is empty when nothing says it
	user, group    int64  // zero: whom the pool's settings name
	memory         int64  // bytes that its policy lets copies have; zero: the pool's limit
	grants         []wire.Egress
}

// KeyPolicy is the annotation in which the injector writes what was in force for
// an agent's pod when it was made; of it the pool reads two settings.
const (
	KeyPolicy = "code-sandbox.dev/policy"
	keyMemory = "tool-memory"
	keyGrants = "grants"
)

// Reasons of a copy that cannot be made.
const (
	reasonContainers = "container"       // which of the pod's containers is not known
	reasonDigest     = "image_digest"    // the image has no digest that could be pulled
	reasonConflict   = "policy_conflict" // another NetworkPolicy opens what ours close
	reasonCopy       = "copy_mutated"    // admission changed the copy
	reasonNoEgress   = "no_egress"       // there is no proxy, or the pod's policy grants less
)

// agentOf reads a pod. An empty container is its only one.
func agentOf(p *corev1.Pod, container string) (*agent, *api.Error) {
	c, err := containerOf(p, container)
	if err != nil {
		return nil, err
	}
	image, err := digestOf(p, c)
	if err != nil {
		return nil, err
	}
	a := &agent{
		namespace: p.Namespace, pod: p.Name, uid: p.UID, container: c.Name, image: image,
		pullSecrets: p.Spec.ImagePullSecrets, node: p.Spec.NodeName, arch: p.Spec.NodeSelector[corev1.LabelArchStable],
	}
	for _, t := range p.Spec.Tolerations {
		if t.TolerationSeconds == nil { // those with seconds are the cluster's own, which every pod gets
			a.tolerations = append(a.tolerations, t)
		}
	}
	a.user, a.group = userOf(p, c)
	var policy map[string]string
	if json.Unmarshal([]byte(p.Annotations[KeyPolicy]), &policy) == nil {
		a.memory, a.grants = memoryOf(policy), grantsOf(policy)
	}
	return a, nil
}

// memoryOf is what a pod's policy lets copies have, of which the injector has
// checked that it is a quantity.
func memoryOf(policy map[string]string) int64 {
	q, err := resource.ParseQuantity(policy[keyMemory])
	if err != nil || q.Sign() <= 0 {
		return 0
	}
	return q.Value()
}

func containerOf(p *corev1.Pod, name string) (*corev1.Container, *api.Error) {
	all := p.Spec.Containers
	if name == "" && len(all) == 1 {
		return &all[0], nil
	}
	var names []string
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
		names = append(names, all[i].Name)
	}
	what := "it does not say which of its containers calls"
	if name != "" {
		what = "it has no container of the name " + strings.ToValidUTF8(name[:min(len(name), 63)], "")
	}
	return nil, api.Errorf(api.Unsandboxable, "cannot copy the pod %q: %s; it has %s; the injector names it in CODE_SANDBOX_CONTAINER",
		p.Name, what, strings.Join(names, ", ")).Because(reasonContainers)
}

// digestOf is the image that the container runs, from the pod's status: the tag
// in its spec may have been moved since it started.
func digestOf(p *corev1.Pod, c *corev1.Container) (string, *api.Error) {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name != c.Name || s.ImageID == "" {
			continue
		}
		id := s.ImageID
		if i := strings.Index(id, "://"); i >= 0 {
			id = id[i+len("://"):]
		}
		if name, digest, ok := strings.Cut(id, "@"); ok && name != "" && strings.HasPrefix(digest, "sha256:") {
			return named(c.Image, name, digest), nil
		}
		return "", api.Errorf(api.Unsandboxable, "cannot copy the pod %q: the image %q of its container %q came from no registry, and has no digest to have it by again; "+
			"push it to a registry and run it from there", p.Name, c.Image, c.Name).Because(reasonDigest)
	}
	return "", api.Errorf(api.NoCapacity, "cannot copy the pod %q yet: its status does not say which image its container %q runs", p.Name, c.Name).
		Because(reasonDigest).After(retryAgent)
}

// named is the image by the name that the pod has it by, and by the digest that is
// written there, if one is. A node that has the same image by several names tells
// any of them in the status, and the pod's pull secrets are for its own.
func named(image, name, digest string) string {
	own, pinned, _ := strings.Cut(image, "@")
	if tag := strings.LastIndexByte(own, ':'); tag > strings.LastIndexByte(own, '/') {
		own = own[:tag]
	}
	switch {
	case own == "" || own == "sha256": // it is named by what it is
		return name + "@" + digest
	case strings.HasPrefix(pinned, "sha256:"):
		return own + "@" + pinned
	}
	return own + "@" + digest
}

// userOf is whom the container runs as, unless that is root or not known: copies
// then read the image's files as the pool's own choice of a user does.
func userOf(p *corev1.Pod, c *corev1.Container) (user, group int64) {
	set := func(u, g *int64) {
		if u != nil {
			user = *u
		}
		if g != nil {
			group = *g
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == c.Name && s.User != nil && s.User.Linux != nil {
			set(&s.User.Linux.UID, &s.User.Linux.GID)
		}
	}
	if sc := p.Spec.SecurityContext; sc != nil {
		set(sc.RunAsUser, sc.RunAsGroup)
	}
	if sc := c.SecurityContext; sc != nil {
		set(sc.RunAsUser, sc.RunAsGroup)
	}
	if user <= 0 {
		return 0, 0
	}
	if group <= 0 {
		group = user
	}
	return user, group
}

// agentOnly keeps of a pod what tells who it is, and what its copies are made
// of: of many pods, all else is memory, and some of it secret.
func agentOnly(object any) (any, error) {
	p, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	kept := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: p.Spec.ServiceAccountName, NodeName: p.Spec.NodeName,
		ImagePullSecrets: p.Spec.ImagePullSecrets, Tolerations: p.Spec.Tolerations,
	}}
	kept.Name, kept.Namespace, kept.UID = p.Name, p.Namespace, p.UID
	kept.ResourceVersion, kept.DeletionTimestamp = p.ResourceVersion, p.DeletionTimestamp
	kept.Status.Phase, kept.Status.PodIPs = p.Status.Phase, p.Status.PodIPs
	if policy := p.Annotations[KeyPolicy]; policy != "" {
		kept.Annotations = map[string]string{KeyPolicy: policy}
	}
	if arch := p.Spec.NodeSelector[corev1.LabelArchStable]; arch != "" {
		kept.Spec.NodeSelector = map[string]string{corev1.LabelArchStable: arch}
	}
	if sc := p.Spec.SecurityContext; sc != nil {
		kept.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: sc.RunAsUser, RunAsGroup: sc.RunAsGroup}
	}
	for _, c := range p.Spec.Containers {
		k := corev1.Container{Name: c.Name, Image: c.Image}
		if sc := c.SecurityContext; sc != nil {
			k.SecurityContext = &corev1.SecurityContext{RunAsUser: sc.RunAsUser, RunAsGroup: sc.RunAsGroup}
		}
		kept.Spec.Containers = append(kept.Spec.Containers, k)
	}
	for _, s := range p.Status.ContainerStatuses {
		kept.Status.ContainerStatuses = append(kept.Status.ContainerStatuses, corev1.ContainerStatus{Name: s.Name, ImageID: s.ImageID, User: s.User})
	}
	return kept, nil
}
