package main

import (
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a tar file as it is. It is not compressed: it never leaves the
// machine, and a node that need not unpack gzip starts a pod seconds sooner.
type layer struct {
	path string
	hash v1.Hash
	size int64
}

func openLayer(path string) (*layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read a layer: %w", err)
	}
	defer f.Close()
	hash, size, err := v1.SHA256(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read the layer %q: %w", path, err)
	}
	return &layer{path: path, hash: hash, size: size}, nil
}

func (l *layer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l *layer) Size() (int64, error)                 { return l.size, nil }
func (l *layer) MediaType() (types.MediaType, error)  { return types.OCIUncompressedLayer, nil }
func (l *layer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l *layer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
