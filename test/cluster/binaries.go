package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// key names a build by everything that decides what comes out of it.
func (p program) key(source string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), runtime.GOARCH, p.packages, p.file, p.folder, p.cgo, p.flags(), p.links, p.changes)
	for _, pattern := range p.inputs {
		files, err := filepath.Glob(filepath.Join(source, p.module, pattern))
		if err != nil || len(files) == 0 {
			return "", errors.Join(err, fmt.Errorf("cannot find the sources %q of %q", pattern, p.name))
		}
		slices.Sort(files)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return "", fmt.Errorf("cannot read the sources of %q: %w", p.name, err)
			}
			fmt.Fprintln(sum, filepath.Base(file), len(content))
			sum.Write(content)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// Build makes the programs that are not in the cache yet, and returns a
// folder with all of them. Each appears in the cache whole or not at all.
func (b *Bed) Build(ctx context.Context) (string, error) {
	if err := b.installPackages(ctx); err != nil {
		return "", err
	}
	all := filepath.Join(b.cache, "programs")
	release, err := lockFile(ctx, filepath.Join(b.cache, "locks", "programs"))
	if err != nil {
		return "", err
	}
	defer release()
	if err := removeHalf(all); err != nil {
		return "", err
	}
	keys := sha256.New()
	var built []string
	for _, p := range programs() {
		key, err := p.key(b.source)
		if err != nil {
			return "", err
		}
		dir := filepath.Join(all, p.name+"-"+key)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			began := time.Now()
			b.log.Info("building a program", "program", p.name)
			if err := whole(dir, func(to string) error { return b.build(ctx, p, to) }); err != nil {
				return "", err
			}
			b.log.Info("program is built", "program", p.name, "after", time.Since(began).Round(time.Second))
		}
		built = append(built, dir)
		fmt.Fprintln(keys, dir)
	}
	bin := filepath.Join(b.cache, "bin", hex.EncodeToString(keys.Sum(nil)[:8]))
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	return bin, whole(bin, func(to string) error { return linkAll(to, built) })
}

const half = ".half-" // prefix of what is not whole yet

// whole makes a folder that appears under its name only once fill succeeded.
func whole(dir string, fill func(string) error) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	to, err := os.MkdirTemp(filepath.Dir(dir), half)
	if err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	defer os.RemoveAll(to)
	if err := os.Chmod(to, 0o755); err != nil {
		return fmt.Errorf("cannot make a folder: %w", err)
	}
	if err := fill(to); err != nil {
		return err
	}
	if err := os.Rename(to, dir); err != nil {
		return fmt.Errorf("cannot name a finished folder: %w", err)
	}
	return nil
}

// removeHalf removes what builds have left that were killed. Call it with the
// lock held: nobody else builds.
func removeHalf(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, half+"*"))
	if err != nil {
		return err
	}
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("cannot remove a half build: %w", err)
		}
	}
	return nil
}

func (b *Bed) build(ctx context.Context, p program, to string) error {
	module := filepath.Join(b.source, p.module)
	if len(p.changes) > 0 {
		changed, err := os.MkdirTemp(filepath.Dir(to), half)
		if err != nil {
			return fmt.Errorf("cannot make a folder: %w", err)
		}
		defer os.RemoveAll(changed)
		if err := vendorWith(ctx, p, module, changed); err != nil {
			return err
		}
		module = changed
	}
	out := filepath.Join(to, p.folder, p.file)
	if p.file == "" {
		out += string(filepath.Separator)
	}
	if err := goRun(ctx, module, p.cgo, append(append([]string{"build", "-o", out}, p.flags()...), p.packages...)...); err != nil {
		return fmt.Errorf("cannot build %q: %w", p.name, err)
	}
	for link, file := range p.links {
		if err := os.Link(filepath.Join(to, file), filepath.Join(to, link)); err != nil {
			return fmt.Errorf("cannot build %q: %w", p.name, err)
		}
	}
	return nil
}

// vendorWith makes a copy of the module with its dependencies, and changes
// them. A change that does not fit exactly once is an error.
func vendorWith(ctx context.Context, p program, module, to string) error {
	for _, pattern := range p.inputs {
		files, err := filepath.Glob(filepath.Join(module, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, filepath.Base(file)), content, 0o644)
			}
			if err != nil {
				return fmt.Errorf("cannot copy the module of %q: %w", p.name, err)
			}
		}
	}
	if err := goRun(ctx, to, false, "mod", "vendor"); err != nil {
		return fmt.Errorf("cannot copy what %q needs: %w", p.name, err)
	}
	for _, c := range p.changes {
		path := filepath.Join(to, c.file)
		content, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("cannot change %q: %w", p.name, err)
		}
		if strings.Count(string(content), c.from) != 1 {
			return fmt.Errorf("cannot change %q: %q is not once in %q", p.name, c.from, c.file)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(content), c.from, c.to, 1)), 0o644); err != nil {
			return fmt.Errorf("cannot change %q: %w", p.name, err)
		}
	}
	return nil
}

// goRun runs the go command the same way whatever its caller's settings are.
func goRun(ctx context.Context, dir string, cgo bool, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	enabled := "0"
	if cgo {
		enabled = "1"
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+enabled, "GOFLAGS=", "GOWORK=off", "GOTOOLCHAIN=local", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(out, 20))
	}
	return nil
}

func lastLines(out []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// linkAll gives every file of the folders a second name below to.
func linkAll(to string, folders []string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(folder, path)
			if err != nil {
				return err
			}
			if d.IsDir() {
				return os.MkdirAll(filepath.Join(to, rel), 0o755)
			}
			return os.Link(path, filepath.Join(to, rel))
		})
		if err != nil {
			return fmt.Errorf("cannot gather the programs: %w", err)
		}
	}
	return nil
}
