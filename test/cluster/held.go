package cluster

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// heldDiffers looks into the layers: the product's holds its programs and
// nothing else, python's the packages that are required, in those versions.
func (b *Bed) heldDiffers(ctx context.Context, bin string, product, python image) ([]string, error) {
	m := &maker{bed: b, bin: bin, dir: filepath.Join(b.cache, "images", "layers"), done: map[string]string{}}
	held, err := m.held(ctx, product.layers[0])
	if err != nil {
		return nil, err
	}
	var found []string
	var want []string
	for _, main := range product.layers[0].mains {
		want = append(want, "usr/local/bin/"+filepath.Base(main))
	}
	slices.Sort(want)
	if slices.Sort(held); !slices.Equal(held, want) {
		found = append(found, fmt.Sprintf("%s: holds %q and should hold %q", product.name, held, want))
	}
	if held, err = m.held(ctx, python.layers[1]); err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(b.source, "test/cluster/images", python.layers[1].wheels))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(list)) {
		name, version, ok := strings.Cut(strings.TrimSpace(line), "==")
		if !ok {
			continue
		}
		record := "usr/local/lib/python3.11/dist-packages/" + strings.ReplaceAll(name, "-", "_") + "-" + version + ".dist-info/METADATA"
		if !slices.Contains(held, record) {
			found = append(found, fmt.Sprintf("%s: does not hold %s %s", python.name, name, version))
		}
	}
	return found, nil
}

// held are the names of the files in a layer.
func (m *maker) held(ctx context.Context, l layer) ([]string, error) {
	file, err := m.layer(ctx, l)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var names []string
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read the layer %q: %w", l.name, err)
		}
		if h.Typeflag != tar.TypeDir {
			names = append(names, strings.TrimPrefix(h.Name, "./"))
		}
	}
}
