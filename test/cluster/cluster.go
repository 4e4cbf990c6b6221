// Package cluster runs a real Kubernetes cluster of one node on this machine,
// for tests: etcd, the control plane, kubelet, containerd, runc, gVisor, a CNI
// network with NetworkPolicy, DNS, and a registry. Everything is built from Go
// modules and Debian packages; docs/development.md tells how it fits together.
//
// The node lives in namespaces and cgroups of its own. The machine sees
// loopback listeners and one folder of it, and nothing once it is down.
package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Options say where a cluster is kept. The zero value of each field is
// replaced by its default.
type Options struct {
	Work   string // folder of the running cluster, removed by Down
	Cache  string // folder of programs and images, kept
	Source string // root of this repository
	Log    hclog.Logger
}

// Bed is a cluster, whether it runs or not.
type Bed struct {
	work, cache, source string
	name                string // of its cgroups, unique to the work folder
	ended               uint64 // when the node was ended, in clock ticks after boot
	log                 hclog.Logger
}

// New fills in the defaults. It touches nothing.
func New(o Options) (*Bed, error) {
	if o.Cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("cannot find a folder for the cache: %w", err)
		}
		o.Cache = filepath.Join(base, "code-sandbox", "cluster")
	}
	if o.Work == "" {
		o.Work = filepath.Join(o.Cache, "work")
	}
	if o.Source == "" {
		root, err := findSource()
		if err != nil {
			return nil, err
		}
		o.Source = root
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	b := &Bed{cache: o.Cache, log: o.Log}
	for to, from := range map[*string]string{&b.work: o.Work, &b.cache: o.Cache, &b.source: o.Source} {
		path, err := filepath.Abs(from)
		if err != nil {
			return nil, fmt.Errorf("cannot use the folder %q: %w", from, err)
		}
		*to = path
	}
	sum := sha256.Sum256([]byte(b.work))
	b.name = "code-sandbox-bed-" + hex.EncodeToString(sum[:4])
	return b, nil
}

// findSource looks for the root of this repository from the current folder
// upwards.
func findSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("cannot find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "cluster", "tools", "kube", "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("cannot find the repository: call this from inside it")
		}
		dir = up
	}
}

// Up makes sure that the cluster runs, and returns once its node and its DNS
// are ready. Programs and images that are missing are built first.
func (b *Bed) Up(ctx context.Context) (State, error) {
	if os.Geteuid() != 0 {
		return State{}, errors.New("cannot start a cluster: it needs root")
	}
	release, err := b.lock(ctx)
	if err != nil {
		return State{}, err
	}
	defer release()
	if s, err := b.State(); err == nil && s.alive() && apiAnswers(ctx, s) == nil {
		b.log.Info("cluster is up already")
		return s, nil
	}
	if err := b.down(ctx); err != nil {
		return State{}, err
	}
	bin, err := b.Build(ctx)
	if err != nil {
		return State{}, err
	}
	images, err := b.Images(ctx, bin)
	if err != nil {
		return State{}, err
	}
	s, err := b.start(ctx, bin, images)
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return State{}, errors.Join(err, b.tailLogs(), b.down(clean))
	}
	return s, nil
}

// Down ends the cluster and removes everything of it but the cache. It is
// not an error when there is none.
func (b *Bed) Down(ctx context.Context) error {
	release, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	return b.down(ctx)
}
