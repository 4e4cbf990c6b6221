package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unpackDebian puts the packages and what they depend on below root. Their
// scripts are not run: what those would do for Python is done here.
func unpackDebian(ctx context.Context, packages []string, root, scratch string) error {
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.MkdirAll(filepath.Join(root, "usr", dir), 0o755); err != nil {
			return err
		}
		if err := os.Symlink("usr/"+dir, filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	files, err := fetchDebian(ctx, packages, filepath.Join(scratch, "deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := unpack(ctx, file, root); err != nil {
			return err
		}
	}
	for _, dir := range []string{"doc", "man", "locale", "info", "bash-completion", "lintian", "perl"} {
		if err := os.RemoveAll(filepath.Join(root, "usr/share", dir)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"tmp", "var/tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(root, dir), os.ModeSticky|0o777); err != nil {
			return err
		}
	}
	return finishPrograms(ctx, root)
}

// fetchDebian downloads the packages with all they depend on: apt is shown a
// machine that has none.
func fetchDebian(ctx context.Context, packages []string, to string) ([]string, error) {
	status := filepath.Join(to, "status")
	if err := os.MkdirAll(filepath.Join(to, "archives", "partial"), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	args := append([]string{"-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + filepath.Join(to, "archives"),
		"-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root",
		"install", "-y", "-q", "--no-install-recommends", "--download-only"}, packages...)
	if err := apt(ctx, args...); err != nil {
		if err := apt(ctx, "update", "-q"); err != nil {
			return nil, err
		}
		if err := apt(ctx, args...); err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(filepath.Join(to, "archives", "*.deb"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("cannot find what was downloaded of %q", packages))
	}
	return files, nil
}

// unpack lays a package's files below root. Folders that are links stay so.
func unpack(ctx context.Context, deb, root string) error {
	from := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	to := exec.CommandContext(ctx, "tar", "-C", root, "--keep-directory-symlink", "-xf", "-")
	pipe, err := from.StdoutPipe()
	if err != nil {
		return err
	}
	var problems strings.Builder
	to.Stdin, to.Stderr, from.Stderr = pipe, &problems, os.Stderr
	if err := from.Start(); err != nil {
		return err
	}
	err = to.Run()
	if err := errors.Join(err, from.Wait()); err != nil {
		return fmt.Errorf("cannot unpack %q: %w: %s", filepath.Base(deb), err, problems.String())
	}
	return nil
}

// finishPrograms does what the packages' scripts would have done: a shell by
// the name of sh, and the standard library of Python compiled.
func finishPrograms(ctx context.Context, root string) error {
	if _, err := os.Stat(filepath.Join(root, "usr/bin/dash")); err == nil {
		_ = os.Remove(filepath.Join(root, "usr/bin/sh"))
		if err := os.Symlink("dash", filepath.Join(root, "usr/bin/sh")); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(root, "usr/lib/python3.11")); err != nil {
		return nil // a layer without Python
	}
	return compileAll(ctx, root, filepath.Join(root, "usr/lib/python3.11"))
}

// compileAll compiles for an interpreter that finds root at /. The result
// holds hashes of the sources, not times, which are not kept.
func compileAll(ctx context.Context, root, dir string) error {
	return run(ctx, "/usr/bin/python3.11", "-I", "-m", "compileall", "-q", "-j", "0",
		"--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/", "-x", "lib2to3/tests|/test/bad", dir)
}
