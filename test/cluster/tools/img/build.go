package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is what is asked for: tar files, the lowest layer first, and the
// settings a container starts with.
type image struct {
	Layers     []string
	Entrypoint []string
	Cmd        []string
	Env        []string
	User       string
	WorkingDir string
	Volumes    []string
}

// build adds the image to the store and returns its digest. The same request
// has the same digest, whenever and wherever it is built.
func build(request io.Reader, store string) (v1.Hash, error) {
	var want image
	decoder := json.NewDecoder(request)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&want); err != nil {
		return v1.Hash{}, fmt.Errorf("cannot read the request: %w", err)
	}
	im, err := assemble(want)
	if err != nil {
		return v1.Hash{}, err
	}
	return write(im, store)
}

func assemble(want image) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	var layers []v1.Layer
	for _, path := range want.Layers {
		l, err := openLayer(path)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	im, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, fmt.Errorf("cannot add the layers: %w", err)
	}
	config, err := im.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config = v1.Config{
		Entrypoint: want.Entrypoint, Cmd: want.Cmd, Env: want.Env, User: want.User, WorkingDir: want.WorkingDir,
	}
	for _, place := range want.Volumes {
		if config.Config.Volumes == nil {
			config.Config.Volumes = map[string]struct{}{}
		}
		config.Config.Volumes[place] = struct{}{}
	}
	return mutate.ConfigFile(im, config)
}

// write puts the layers, the configuration and the manifest into the store,
// the manifest last: what has one is complete.
func write(im v1.Image, store string) (v1.Hash, error) {
	layers, err := im.Layers()
	if err != nil {
		return v1.Hash{}, err
	}
	for _, l := range layers {
		if err := linkBlob(store, l.(*layer)); err != nil {
			return v1.Hash{}, err
		}
	}
	config, err := im.RawConfigFile()
	if err != nil {
		return v1.Hash{}, err
	}
	name, err := im.ConfigName()
	if err != nil {
		return v1.Hash{}, err
	}
	if err := writeBlob(store, name, config); err != nil {
		return v1.Hash{}, err
	}
	manifest, err := im.RawManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	digest, err := im.Digest()
	if err != nil {
		return v1.Hash{}, err
	}
	return digest, writeBlob(store, digest, manifest)
}

// linkBlob gives the layer's file a second name in the store.
func linkBlob(store string, l *layer) error {
	to := filepath.Join(store, l.hash.Hex)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := os.Link(l.path, to); err != nil && !os.IsExist(err) {
		return fmt.Errorf("cannot store the layer %q: %w", l.path, err)
	}
	return nil
}

func writeBlob(store string, hash v1.Hash, content []byte) error {
	f, err := os.CreateTemp(store, ".new-*")
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", hash, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(store, hash.Hex))
	}
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", hash, err)
	}
	return nil
}
