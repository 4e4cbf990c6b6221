package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// covering has the runner of each pod look at that pod as the runner of an image
// with those places would: it tells what is not covered.
func (o *town) covering(image wire.Covers) {
	seen := map[string]bool{} // a pod whose place another took may still be there
	o.runner = func() *fakeConn {
		c := &fakeConn{}
		var mounts []corev1.VolumeMount
		// Not by the client, whose lock a request may hold that waits for this world's.
		all, err := o.kube.Tracker().List(corev1.SchemeGroupVersion.WithResource("pods"), corev1.SchemeGroupVersion.WithKind("Pod"), "agents")
		pods, ok := all.(*corev1.PodList)
		if err != nil || !ok {
			o.Fatal(all, err)
		}
		for _, p := range pods.Items {
			if p.Labels[LabelCopy] != "" && !seen[p.Name] {
				seen[p.Name], mounts = true, p.Spec.Containers[0].VolumeMounts
			}
		}
		o.mountable(mounts)
		open := func(places []string) (left []string) {
			for _, p := range places {
				if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return hidden.Below(p, m.MountPath) }) {
					left = append(left, p)
				}
			}
			return left
		}
		writable := slices.Clone(image.Volumes)
		for _, m := range mounts {
			if !m.ReadOnly && m.MountPath != "/dev/shm" {
				writable = append(writable, m.MountPath)
			}
		}
		c.fresh = func(context.Context, wire.Proof) (wire.Fresh, error) {
			return wire.Fresh{Fresh: true, Writable: writable}, nil
		}
		c.covers = wire.Covers{Files: open(image.Files), Folders: open(image.Folders)}
		return c
	}
}

// mountable checks that a runtime could mount all of these: each at a place of its
// own, and inside of another one only where it can make that place.
func (o *town) mountable(mounts []corev1.VolumeMount) {
	o.Helper()
	for i, m := range mounts {
		for j, other := range mounts {
			if i != j && hidden.Below(m.MountPath, other.MountPath) && (other.ReadOnly || other.MountPath == m.MountPath) {
				o.Errorf("the pod cannot start: %q is mounted in %q, which is read-only or the same", m.MountPath, other.MountPath)
			}
		}
	}
}

// startCovered starts a copy and returns its mounts, beside those that every copy
// has, and how many pods that took.
func (o *town) startCovered(program *wire.Copy) (mounts []corev1.VolumeMount, pods int) {
	o.Helper()
	before := len(o.conns)
	template, err := o.template(program)
	if err != nil {
		o.Fatal(err)
	}
	s, err := o.driver.Start(o.Context(), template)
	if err != nil {
		o.Fatal(err)
	}
	after(time.Minute) // the pods whose place it took are gone
	if left := o.pods(); len(left) != 2 {
		o.Errorf("left: %q", left)
	}
	p, err := o.kube.CoreV1().Pods("agents").Get(o.Context(), s.ID(), metav1.GetOptions{})
	if err != nil {
		o.Fatal(err)
	}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		if !slices.Contains([]string{"/tmp", "/dev/shm", runnerFolder}, m.MountPath) {
			mounts = append(mounts, m)
		}
	}
	if err := o.driver.Destroy(o.Context(), s.ID()); err != nil {
		o.Fatal(err)
	}
	return mounts, len(o.conns) - before
}

// What an image has that its copies must not see, or could fill a node's disk
// with, is covered by the next pod, and by all later ones at once.
func TestCopyIsCovered(t *testing.T) {
	f := func(image wire.Covers, pods int, want ...corev1.VolumeMount) {
		t.Helper()
		inTown(t, func(o *town) {
			o.covering(image)
			for _, n := range []int{pods, 1} {
				if mounts, took := o.startCovered(testProgram()); !reflect.DeepEqual(mounts, want) || took != n {
					t.Errorf("%d pods, want %d; mounts %+v", took, n, mounts)
				}
			}
		})
	}
	f(wire.Covers{}, 1)
	nothing := func(place, path string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: runnerVolume, MountPath: place, SubPath: path, ReadOnly: true}
	}
	f(wire.Covers{Files: []string{"/app/.env", "/app/sub/.ENV.local"}, Folders: []string{"/app/.aws"}}, 2,
		nothing("/app/.env", "empty"), nothing("/app/sub/.ENV.local", "empty"), nothing("/app/.aws", "none"))
	disk := func(place string, n int) corev1.VolumeMount {
		return corev1.VolumeMount{Name: scratchVolume, MountPath: place, SubPath: fmt.Sprint("volume-", n)}
	}
	// The runner lets the place of the second be in its folder: its TestCheckFolders.
	f(wire.Covers{Volumes: []string{"/data", "/tmp/cache"}}, 2, disk("/data", 0), disk("/tmp/cache", 1))
	f(wire.Covers{Volumes: []string{"/data"}, Files: []string{"/app/.env"}}, 3, disk("/data", 0), nothing("/app/.env", "empty"))
	// What is inside of a hidden folder is hidden with it; a VOLUME there gets its
	// place in the sandbox's own disk.
	f(wire.Covers{Folders: []string{"/app/.aws"}, Files: []string{"/app/.aws/credentials", "/app/.awsrc"}}, 2,
		nothing("/app/.awsrc", "empty"), nothing("/app/.aws", "none"))
	f(wire.Covers{Volumes: []string{"/app/.cache/models"}, Folders: []string{"/app/.cache"}, Files: []string{"/app/.cache/token"}}, 3,
		disk("/app/.cache", 0), disk("/app/.cache/models", 1))
}

// The first program of an image pays for what is found in it; of its VOLUMEs the
// next programs know at once, and of credentials only the same program's copies.
func TestNextProgramsOfAnImage(t *testing.T) {
	inTown(t, func(o *town) {
		o.covering(wire.Covers{Volumes: []string{"/data"}, Files: []string{"/app/.env"}})
		f := func(pods int, change func(c *wire.Copy)) {
			t.Helper()
			program := testProgram()
			change(program)
			mounts, took := o.startCovered(program)
			if len(mounts) != 2 || mounts[0].MountPath != "/data" || mounts[1].MountPath != "/app/.env" || took != pods {
				t.Errorf("%d pods, want %d; mounts %+v", took, pods, mounts)
			}
		}
		f(3, func(*wire.Copy) {})
		f(1, func(c *wire.Copy) { c.Target = json.RawMessage(`{"module":"__main__","qualname":"sub"}`) })
		f(2, func(c *wire.Copy) { c.Program = []string{"/app", "/app/sub"} })
		f(1, func(c *wire.Copy) { c.Program = []string{"/app", "/app/sub"} })
	})
}

// What cannot be covered is refused, and a cover that does not hold is one.
func TestCopyCannotBeCovered(t *testing.T) {
	f := func(reason string, image wire.Covers) {
		t.Helper()
		inTown(t, func(o *town) {
			o.covering(image)
			template, err := o.template(testProgram())
			if err != nil {
				t.Fatal(err)
			}
			_, err = o.driver.Start(o.Context(), template)
			o.refused(err, reason, api.Unsandboxable)
			after(time.Minute)
			if left := o.pods(); len(left) != 1 || slices.ContainsFunc(o.conns, func(c *fakeConn) bool { return len(image.Volumes) > 0 && c.prepared != nil }) {
				t.Errorf("left: %q", left)
			}
		})
	}
	f(reasonVolume, wire.Covers{Volumes: []string{"/"}})
	f(reasonVolume, wire.Covers{Volumes: []string{"/opt"}}) // the runner is below
	f(reasonVolume, wire.Covers{Volumes: []string{"/opt/code-sandbox"}})
	f(reasonVolume, wire.Covers{Volumes: []string{"/a:b"}})
	f(reasonVolume, wire.Covers{Volumes: places(maxVolumes + 1)})
	f("folder_private", wire.Covers{Files: []string{"/app/" + strings.Repeat("x", maxMountPath)}})
	f("folder_private", wire.Covers{Folders: []string{"/proc/x"}})
	f("folder_too_large", wire.Covers{Files: places(maxCovered + 1)})
	f("folder_private", wire.Covers{Files: []string{"/a:b/.env"}})
}

// A cover that does not hold ends the start: what it is over is still there, or
// what is inside of that.
func TestCoverDoesNotHold(t *testing.T) {
	f := func(found ...wire.Covers) {
		t.Helper()
		inTown(t, func(o *town) {
			o.runner = func() *fakeConn { return &fakeConn{covers: found[min(len(o.conns), len(found)-1)]} }
			template, err := o.template(testProgram())
			if err != nil {
				t.Fatal(err)
			}
			_, err = o.driver.Start(o.Context(), template)
			o.refused(err, "folder_private", api.Unsandboxable)
			after(time.Minute)
			if len(o.conns) != 2 {
				t.Errorf("%d pods were made", len(o.conns))
			}
		})
	}
	f(wire.Covers{Files: []string{"/app/.env"}})
	f(wire.Covers{Folders: []string{"/app/.aws"}}, wire.Covers{Files: []string{"/app/.aws/credentials"}})
}

func places(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("/app/%03d", i))
	}
	return all
}

// A sandbox of run_python covers the volumes of its image as well.
func TestSandboxCoversVolumes(t *testing.T) {
	inWorld(t, func(w *world, d *Driver) {
		w.runner = func() *fakeConn {
			return &fakeConn{fresh: func(context.Context, wire.Proof) (wire.Fresh, error) {
				return wire.Fresh{Fresh: true, Writable: []string{"/data", "/dev/shm", "/tmp", "/work"}}, nil
			}}
		}
		s, err := d.Start(w.Context(), testTemplate())
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.kube.CoreV1().Pods(d.opts.Pods.Namespace).Get(w.Context(), s.ID(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		covered := func(m corev1.VolumeMount) bool {
			return m.MountPath == "/data" && m.Name == scratchVolume && !m.ReadOnly
		}
		if !slices.ContainsFunc(p.Spec.Containers[0].VolumeMounts, covered) || len(w.conns) != 2 {
			t.Errorf("%d pods; mounts %+v", len(w.conns), p.Spec.Containers[0].VolumeMounts)
		}
		if err := d.Destroy(w.Context(), s.ID()); err != nil {
			t.Error(err)
		}
		after(time.Minute)
	})
}

// What is found in an image depends on who looks, and for which program.
func TestCoverKey(t *testing.T) {
	a := testAgent(t, nil)
	f := func(same bool, change func(a *agent, c *wire.Copy, image *string)) {
		t.Helper()
		of, template := *a, copyTemplate(a)
		change(&of, template.Copy, &template.Image)
		if got := coverKey(&of, template) == coverKey(a, copyTemplate(a)); got != same {
			t.Errorf("the keys are equal: %v", got)
		}
	}
	f(true, func(*agent, *wire.Copy, *string) {})
	f(true, func(a *agent, c *wire.Copy, _ *string) {
		a.pod, a.node, c.Target = "another", "elsewhere", json.RawMessage(`{"qualname":"sub"}`)
	})
	f(false, func(_ *agent, _ *wire.Copy, image *string) { *image += "0" })
	f(false, func(a *agent, _ *wire.Copy, _ *string) { a.user++ })
	f(false, func(_ *agent, c *wire.Copy, _ *string) { c.Program = []string{"/srv"} })
	f(false, func(_ *agent, c *wire.Copy, _ *string) { c.Boot = json.RawMessage(`{"cwd":"/srv"}`) })
}
