package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// recipe changes when the same layer is made in another way.
const recipe = 2

// fill lays the files of a layer below root. Scratch is for what is only
// needed on the way.
func (m *maker) fill(ctx context.Context, l layer, built []string, root, scratch string) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	for _, p := range l.programs {
		if err := copyFile(filepath.Join(m.bin, p), filepath.Join(root, p), 0o755); err != nil {
			return err
		}
	}
	for _, file := range built {
		if err := copyFile(file, filepath.Join(root, "usr/local/bin", filepath.Base(file)), 0o755); err != nil {
			return err
		}
	}
	if len(l.debian) > 0 {
		if err := unpackDebian(ctx, l.debian, root, scratch); err != nil {
			return err
		}
	}
	if l.source {
		if err := compileForMusl(ctx, root, scratch); err != nil {
			return err
		}
	}
	if l.wheels != "" {
		list := filepath.Join(m.bed.source, "test/cluster/images", l.wheels)
		if err := unpackWheels(ctx, list, filepath.Join(root, "usr/local/lib/python3.11/dist-packages"), scratch); err != nil {
			return err
		}
	}
	if len(l.keep) > 0 {
		if err := keepOnly(root, l.keep); err != nil {
			return err
		}
	}
	for to, from := range l.folders {
		if err := copyFolder(filepath.Join(m.bed.source, from), filepath.Join(root, to)); err != nil {
			return err
		}
	}
	return addFiles(root, l.files)
}

// filesBelow are the files of folders of the repository, in a fixed order.
func filesBelow(source string, folders map[string]string) (files []string, err error) {
	for _, from := range slices.Sorted(maps.Values(folders)) {
		err := filepath.WalkDir(filepath.Join(source, from), func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "__pycache__":
				return fs.SkipDir
			case !d.IsDir():
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func copyFolder(from, to string) error {
	files, err := filesBelow(from, map[string]string{"": "."})
	if err != nil {
		return err
	}
	for _, file := range files {
		name, err := filepath.Rel(from, file)
		if err == nil {
			err = copyFile(file, filepath.Join(to, name), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func addFiles(root string, files map[string]string) error {
	for name, content := range files {
		if err := writeFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return fmt.Errorf("cannot write %q: %w", name, err)
		}
	}
	if _, ok := files["etc/passwd"]; !ok {
		return nil
	}
	for dir, owner := range map[string]int{"home/app": 1000, "home/nonroot": 65532} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
		if err := os.Chown(filepath.Join(root, dir), owner, owner); err != nil {
			return err
		}
	}
	return nil
}

// buildMains builds the Go programs of a layer, static and without paths of
// this machine, as the Dockerfile does. They stay in the cache, so that
// building them again unchanged costs next to nothing.
func (m *maker) buildMains(ctx context.Context, l layer) ([]string, error) {
	var built []string
	for _, main := range l.mains {
		out := filepath.Join(m.bed.cache, "mains", filepath.Base(main))
		if err := goRun(ctx, m.bed.source, false, append(append([]string{"build"}, mainFlags...), "-o", out, "./"+main)...); err != nil {
			return nil, fmt.Errorf("cannot build %q: %w", main, err)
		}
		built = append(built, out)
	}
	return built, nil
}

// mainFlags are the flags that the Dockerfile builds the product with.
var mainFlags = []string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w"}

// keepOnly removes every program but these.
func keepOnly(root string, keep []string) error {
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if slices.Contains(keep, e.Name()) {
				continue
			}
			if err := os.RemoveAll(filepath.Join(root, dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(from, to string, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
