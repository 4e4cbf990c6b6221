package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// storePath is the folder of everything that images consist of, by digest.
func (b *Bed) storePath() string { return filepath.Join(b.cache, "images", "blobs") }

// Images makes the images that are not in the cache yet, and returns the
// digest of each by its name.
func (b *Bed) Images(ctx context.Context, bin string) (map[string]string, error) {
	release, err := lockFile(ctx, filepath.Join(b.cache, "locks", "images"))
	if err != nil {
		return nil, err
	}
	defer release()
	layers := filepath.Join(b.cache, "images", "layers")
	for _, dir := range []string{layers, b.storePath(), filepath.Join(b.cache, "images", "digests")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("cannot make a folder for images: %w", err)
		}
	}
	if err := removeHalf(layers); err != nil {
		return nil, err
	}
	m := &maker{bed: b, bin: bin, dir: layers, done: map[string]string{}}
	digests := map[string]string{}
	for _, im := range imageList(existing(b.source, productMains)) {
		digest, err := m.image(ctx, im)
		if err != nil {
			return nil, fmt.Errorf("cannot make the image %q: %w", im.name, err)
		}
		digests[im.name] = digest
	}
	return digests, nil
}

// existing are those of the commands that this checkout has.
func existing(source string, mains []string) []string {
	var there []string
	for _, main := range mains {
		if files, err := filepath.Glob(filepath.Join(source, main, "*.go")); err == nil && len(files) > 0 {
			there = append(there, main)
		}
	}
	return there
}

// maker makes images from layers, each layer once.
type maker struct {
	bed  *Bed
	bin  string
	dir  string
	done map[string]string // name of a layer to its tar file
}

// request is what img reads.
type request struct {
	Layers     []string
	Entrypoint []string
	Cmd        []string
	Env        []string
	User       string
	WorkingDir string
	Volumes    []string `json:",omitempty"`
}

func (m *maker) image(ctx context.Context, im image) (string, error) {
	r := request{Entrypoint: im.entrypoint, Cmd: im.cmd, Env: append([]string{path}, im.env...), User: im.user, WorkingDir: im.workdir, Volumes: im.volumes}
	for _, l := range im.layers {
		file, err := m.layer(ctx, l)
		if err != nil {
			return "", err
		}
		r.Layers = append(r.Layers, file)
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw) // the names of layers have their keys in them
	known := filepath.Join(m.bed.cache, "images", "digests", im.name+"-"+hex.EncodeToString(sum[:8]))
	if digest, err := os.ReadFile(known); err == nil {
		return string(digest), nil
	}
	cmd := exec.CommandContext(ctx, filepath.Join(m.bin, "img"), "build", "-store", m.bed.storePath())
	var problems bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(raw), &problems
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, problems.String())
	}
	digest := strings.TrimSpace(string(out))
	return digest, writeFile(known, []byte(digest), 0o644)
}

// layer returns the layer's tar file, and makes it when the cache has none.
func (m *maker) layer(ctx context.Context, l layer) (string, error) {
	if file, ok := m.done[l.name]; ok {
		return file, nil
	}
	built, err := m.buildMains(ctx, l)
	if err != nil {
		return "", err
	}
	key, err := m.key(l, built)
	if err != nil {
		return "", err
	}
	file := filepath.Join(m.dir, l.name+"-"+key+".tar")
	if _, err := os.Stat(file); err == nil {
		m.done[l.name] = file
		return file, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	began := time.Now()
	m.bed.log.Info("making a layer", "layer", l.name)
	work, err := os.MkdirTemp(m.dir, half)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	root := filepath.Join(work, "root")
	if err := m.fill(ctx, l, built, root, work); err != nil {
		return "", err
	}
	if err := pack(ctx, root, filepath.Join(work, "tar")); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(work, "tar"), file); err != nil {
		return "", err
	}
	m.bed.log.Info("layer is made", "layer", l.name, "after", time.Since(began).Round(time.Second))
	m.done[l.name] = file
	return file, nil
}

// key names a layer by what it is made of and by how that is done.
func (m *maker) key(l layer, built []string) (string, error) {
	sum := sha256.New()
	// Without its folders, whose content follows: layers that have none keep the
	// names that they had before there were any.
	fmt.Fprintln(sum, recipe, struct {
		name            string
		debian          []string
		wheels          string
		source          bool
		mains, programs []string
		files           map[string]string
		keep            []string
	}{l.name, l.debian, l.wheels, l.source, l.mains, l.programs, l.files, l.keep})
	files := slices.Clone(built)
	for _, p := range l.programs {
		files = append(files, filepath.Join(m.bin, p))
	}
	if l.wheels != "" {
		files = append(files, filepath.Join(m.bed.source, "test/cluster/images", l.wheels))
	}
	inside, err := filesBelow(m.bed.source, l.folders)
	if err != nil {
		return "", err
	}
	files = append(files, inside...)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, filepath.Base(file), len(content))
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// pack makes a tar file that is the same whenever it is made of the same.
func pack(ctx context.Context, root, file string) error {
	return run(ctx, "tar", "--sort=name", "--mtime=@0", "--numeric-owner", "--format=pax",
		"--pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime", "-C", root, "-cf", file, ".")
}

// run runs a command and makes what it says the error.
func run(ctx context.Context, args ...string) error { return runIn(ctx, "", args...) }

func runIn(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run %s: %w: %s", args[0], err, lastLines(out, 10))
	}
	return nil
}
