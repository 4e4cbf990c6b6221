package kube

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// emptyFile and emptyFolder are what "runner install" lays beside the runner, to
	// cover others.
	emptyFile, emptyFolder = "empty", "none"
	// maxCovered and maxVolumes bound what of an image is covered, maxImages of how
	// many images and programs that is kept.
	maxCovered = 256
	maxVolumes = 16
	maxImages  = 1024
	// reasonVolume: the image declares volumes that cannot be covered.
	reasonVolume = "image_volume"
)

// uncovered is the end of a start whose runner has found what its pod must cover.
// What an image holds nobody else says: its configuration is not to be had from
// the API server. The next pod covers it.
type uncovered struct{ wire.Covers }

func (u *uncovered) Error() string {
	return fmt.Sprintf("cannot start a sandbox: %d places of its image must be covered first", u.Len())
}

// coverings are what is known of images. An image is known by its digest and what
// is in it never changes; who reads it, and which program is in it, decide over
// what is found.
type coverings struct {
	known *lru.Cache[[sha256.Size]byte, *wire.Covers]
}

func newCoverings() (*coverings, error) {
	known, err := lru.New[[sha256.Size]byte, *wire.Covers](maxImages)
	if err != nil {
		return nil, fmt.Errorf("cannot keep what of images is covered: %w", err)
	}
	return &coverings{known}, nil
}

// coverKey is what decides over what is found in an image.
func coverKey(a *agent, t pool.Template) [sha256.Size]byte {
	about := []any{t.Image}
	if a != nil {
		cwd, main, _ := t.Copy.Folders() // the copy itself refuses a record that cannot be read
		about = append(about, a.user, a.group, t.Copy.Prefixes, t.Copy.Program, cwd, main)
	}
	b, err := json.Marshal(about)
	if err != nil {
		panic("BUG: names are not JSON: " + err.Error())
	}
	return sha256.Sum256(b)
}

// imageKey is what decides over the VOLUMEs of an image in copies: they are the same
// for all programs. What may be a credential is not: what is hidden from one
// program may be what another one is made of.
func imageKey(t pool.Template) [sha256.Size]byte {
	return sha256.Sum256([]byte("volumes of " + t.Image))
}

// of is what the pod of a template must cover, as far as it is known; nil when
// that is nothing.
func (c *coverings) of(a *agent, t pool.Template) *wire.Covers {
	if covers, ok := c.known.Get(coverKey(a, t)); ok || a == nil {
		return covers
	}
	covers, _ := c.known.Get(imageKey(t))
	return covers
}

// learn adds what a runner has found, of an image whose pod p covered what was
// known. It is an error when that cannot be covered, or was and is not.
func (c *coverings) learn(a *agent, t pool.Template, p *corev1.Pod, found wire.Covers) *api.Error {
	if err := coverable(p, found); err != nil {
		return err
	}
	all := joined(c.of(a, t), found).Outermost()
	switch {
	case len(all.Volumes) > maxVolumes:
		return api.Errorf(api.Unsandboxable, "the image declares %d VOLUMEs, more than the %d that are covered; remove them from the image", len(all.Volumes), maxVolumes).
			Because(reasonVolume)
	case len(all.Files)+len(all.Folders) > maxCovered:
		return api.Errorf(api.Unsandboxable, "the image has %d files and folders that may hold credentials, more than the %d that can be hidden from a copy; "+
			"start the agent in a folder of its own, with its code and little else", len(all.Files)+len(all.Folders), maxCovered).Because("folder_too_large")
	}
	c.known.Add(coverKey(a, t), &all)
	if a != nil && len(found.Volumes) > 0 {
		known, _ := c.known.Get(imageKey(t))
		volumes := joined(known, wire.Covers{Volumes: found.Volumes})
		c.known.Add(imageKey(t), &volumes)
	}
	return nil
}

// coverable refuses what no pod could cover, and what the pod p did.
func coverable(p *corev1.Pod, found wire.Covers) *api.Error {
	mounted := func(is func(mount string) bool) bool {
		return slices.ContainsFunc(p.Spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return is(m.MountPath) })
	}
	for _, place := range slices.Concat(found.Files, found.Folders) {
		if !mountable(place) || mounted(func(mount string) bool { return hidden.Below(place, mount) }) {
			return api.Errorf(api.Unsandboxable, "cannot hide the image's %q, which may hold a credential, from copies of the agent; remove it from the image", place).
				Because("folder_private")
		}
	}
	for _, place := range found.Volumes {
		if !mountable(place) || mounted(func(mount string) bool { return place == mount }) {
			return api.Errorf(api.Unsandboxable, "the image has %q as a place to write to, of which no limit holds and over which nothing can be mounted; "+
				"remove that VOLUME from the image", place).Because(reasonVolume)
		}
	}
	return nil
}

// joined are the places that are known, of which there may be none, and more.
func joined(known *wire.Covers, more wire.Covers) wire.Covers {
	if known == nil {
		known = &wire.Covers{}
	}
	return wire.Covers{Files: union(known.Files, more.Files), Folders: union(known.Folders, more.Folders), Volumes: union(known.Volumes, more.Volumes)}
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// maxMountPath bounds a path in a pod's spec.
const maxMountPath = 512

// mountable says whether something can be mounted at a place of an image: its name
// is a path, and nothing of ours or of the kernel's is there.
func mountable(place string) bool {
	return path.IsAbs(place) && path.Clean(place) == place && place != "/" && len(place) <= maxMountPath && !strings.ContainsAny(place, ":\x00") &&
		!slices.ContainsFunc([]string{"/dev", "/proc", "/sys", runnerFolder}, func(ours string) bool { return hidden.Below(place, ours) || hidden.Below(ours, place) })
}

// cover mounts over places of an image: nothing where credentials may be, and a
// part of the sandbox's one disk where the image has a volume.
func cover(p *corev1.Pod, covers *wire.Covers) {
	if covers == nil {
		return
	}
	main := &p.Spec.Containers[0]
	for i, place := range covers.Volumes {
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: scratchVolume, MountPath: place, SubPath: fmt.Sprintf("volume-%d", i)})
	}
	for _, place := range covers.Files {
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: runnerVolume, MountPath: place, SubPath: emptyFile, ReadOnly: true})
	}
	for _, place := range covers.Folders {
		main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: runnerVolume, MountPath: place, SubPath: emptyFolder, ReadOnly: true})
	}
}

// uncoveredVolumes are the places to write to that a pod has and was not asked to.
func uncoveredVolumes(p *corev1.Pod, writable []string) error {
	var found []string
	for _, place := range writable {
		asked := func(m corev1.VolumeMount) bool { return m.MountPath == place && !m.ReadOnly }
		if !slices.ContainsFunc(p.Spec.Containers[0].VolumeMounts, asked) {
			found = append(found, place)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &uncovered{wire.Covers{Volumes: found}}
}
