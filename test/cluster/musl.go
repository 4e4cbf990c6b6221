package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// compileForMusl compiles CPython from Debian's source package against musl, as
// Alpine has it. No registry that is used here has one ready. What needs
// OpenSSL or libffi (ssl, ctypes) is left out.
func compileForMusl(ctx context.Context, root, scratch string) error {
	if missing := missingPackages(ctx, "musl-tools", "dpkg-dev", "make", "xz-utils"); len(missing) > 0 {
		if err := install(ctx, missing); err != nil {
			return err
		}
	}
	if err := fetchSources(ctx, scratch, "python3.11", "zlib"); err != nil {
		return err
	}
	zlib, err := unpackSource(ctx, scratch, "zlib_*.orig.tar.*")
	if err != nil {
		return err
	}
	python, err := unpackSource(ctx, scratch, "python3.11_*.orig.tar.*")
	if err != nil {
		return err
	}
	prefix, compiler := filepath.Join(scratch, "zlib"), filepath.Join(scratch, "cc")
	triplet := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH] + "-linux-musl"
	// musl-gcc says that it is the machine's compiler, and would be given the headers
	// of the machine's library.
	script := "#!/bin/sh\ncase \"$*\" in *-print-multiarch*) echo " + triplet + "; exit ;; esac\nexec musl-gcc \"$@\"\n"
	if err := os.WriteFile(compiler, []byte(script), 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		dir  string
		args []string
	}{
		{zlib, []string{"env", "CC=musl-gcc", "CFLAGS=-O2 -fPIC", "./configure", "--static", "--prefix=" + prefix}},
		{zlib, []string{"make", "-s", "install"}},
		// Another folder for headers than /usr/include, which are the machine's
		// and not musl's, and would be looked for there.
		{python, []string{"env", "CC=" + compiler, "CPPFLAGS=-I" + prefix + "/include", "LDFLAGS=-L" + prefix + "/lib",
			"./configure", "--build=" + triplet, "--prefix=/usr", "--includedir=/headers",
			"--without-ensurepip", "--disable-test-modules", "--without-static-libpython"}},
		{python, []string{"make", "-s", "-j2"}},
		{python, []string{"make", "-s", "install", "DESTDIR=" + root}},
	} {
		if err := runIn(ctx, step.dir, step.args...); err != nil {
			return err
		}
	}
	return removePattern(root, "headers", "usr/share", "usr/lib/pkgconfig", "usr/lib/python3.11/config-*",
		"usr/lib/python3.11/ensurepip", "usr/lib/python3.11/idlelib", "usr/lib/python3.11/lib-dynload/*_failed.so")
}

// fetchSources downloads source packages. The machine's list of sources is
// read, and its copy asks for sources as well; the machine's own stays.
func fetchSources(ctx context.Context, to string, packages ...string) error {
	lists := filepath.Join(to, "lists")
	if err := os.MkdirAll(filepath.Join(lists, "partial"), 0o755); err != nil {
		return err
	}
	parts := filepath.Join(to, "parts")
	if err := copySources(parts); err != nil {
		return err
	}
	own := []string{"-o", "Dir::Etc::SourceList=/dev/null", "-o", "Dir::Etc::SourceParts=" + parts, "-o", "Dir::State::Lists=" + lists,
		"-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache=", "-o", "APT::Sandbox::User=root"}
	if err := apt(ctx, append(own, "update", "-q")...); err != nil {
		return err
	}
	source := slices.Concat([]string{"apt-get"}, own, []string{"source", "-q", "--download-only", "--tar-only"}, packages)
	return runIn(ctx, to, source...)
}

// copySources copies the sources of Debian itself, in either of the two forms
// that they are written in.
func copySources(to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	if err != nil {
		return err
	}
	copied := 0
	for _, file := range append(files, "/etc/apt/sources.list") {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // sources.list is not on every machine
		}
		text, name := string(raw), filepath.Base(file)
		if !strings.Contains(text, "bookworm") {
			continue
		}
		if strings.HasSuffix(name, ".sources") {
			text = strings.ReplaceAll(text, "Types: deb\n", "Types: deb-src\n")
		} else {
			text = strings.ReplaceAll(text, "deb ", "deb-src ")
		}
		if err := os.WriteFile(filepath.Join(to, strings.TrimSuffix(name, ".list")+filepath.Ext(name)), []byte(text), 0o644); err != nil {
			return err
		}
		copied++
	}
	if copied == 0 {
		return errors.New("cannot find the machine's sources of Debian 12 packages")
	}
	return nil
}

// unpackSource unpacks the archive that the pattern names, into a folder that
// is returned.
func unpackSource(ctx context.Context, dir, pattern string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) != 1 {
		return "", errors.Join(err, fmt.Errorf("cannot find one source %q: %q", pattern, files))
	}
	to := files[0] + ".unpacked"
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	return to, run(ctx, "tar", "-C", to, "--strip-components=1", "-xf", files[0])
}

func removePattern(dir string, patterns ...string) error {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}
