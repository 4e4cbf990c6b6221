package kube

import (
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// maxForms is how many pods are kept as they were made, some 8 KiB each.
const maxForms = 512

// forms keeps what pods are made from: of one template all are the same but for
// the name and the secret. A template's key has in it whose copies they are, by
// the uid of the agent's pod.
type forms struct {
	pods    PodConfig
	replica string
	covers  *coverings
	known   *lru.Cache[string, form] // by the template's key
}

// form is a pod without an identity, and the state of the agent that it was made
// for, and of what is known of its image.
type form struct {
	agent  *agent // nil for what is no copy
	covers *wire.Covers
	pod    *corev1.Pod
}

func newForms(c PodConfig, replica string) (*forms, error) {
	known, err := lru.New[string, form](maxForms)
	if err != nil {
		return nil, fmt.Errorf("cannot keep the forms of pods: %w", err)
	}
	covers, err := newCoverings()
	if err != nil {
		return nil, err
	}
	return &forms{c, replica, covers, known}, nil
}

// pod is the pod that a template asks for. Of an agent that has changed, which is
// another one then, or an image that more is known of, it is made anew.
func (f *forms) pod(a *agent, t pool.Template, id identity) *corev1.Pod {
	key, covers := t.Key(), f.covers.of(a, t)
	known, ok := f.known.Get(key)
	if !ok || known.agent != a || known.covers != covers {
		known = form{a, covers, f.render(a, t)}
		cover(known.pod, covers)
		f.known.Add(key, known)
	}
	return known.filled(id.name, runnerConfig(f.pods, t, id))
}

// filled is the pod of one sandbox. What does not tell it from others it shares
// with them, so that nobody may write to that; a copy of all would cost as much
// as making it.
func (f form) filled(name, config string) *corev1.Pod {
	p := *f.pod
	p.Name = name
	p.Spec.Containers = slices.Clone(p.Spec.Containers)
	main := &p.Spec.Containers[0]
	main.Env = slices.Clone(main.Env)
	for i := range main.Env {
		if main.Env[i].Name == wire.RunnerEnv {
			main.Env[i].Value = config
		}
	}
	return &p
}

func (f *forms) render(a *agent, t pool.Template) *corev1.Pod {
	nobody := identity{replica: f.replica}
	if a == nil {
		return podFor(f.pods, t, nobody)
	}
	return copyPodFor(f.pods, a, t, nobody)
}
