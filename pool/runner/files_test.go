package runner

import (
	"encoding/base64"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// collectFrom collects from a directory that fill has filled.
func collectFrom(t *testing.T, req *wire.Request, budget int64, fill func(dir string) error, mode ...os.FileMode) ([]wire.File, map[string]string) {
	t.Helper()
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, mainFile), []byte(req.Code), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := fill(path); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, m := range mode { // what the program made of the directory's own
		if err := os.Chmod(path, m); err != nil {
			t.Fatal(err)
		}
	}
	files, omits, err := collect(dir, nil, req, budget)
	if err != nil {
		t.Fatal(err)
	}
	omitted := map[string]string{}
	for _, o := range omits {
		omitted[o.Path] = o.Reason
	}
	return files, omitted
}

func TestCollect(t *testing.T) {
	req := &wire.Request{Code: "print(1)", Files: []wire.File{
		{Path: "same.txt", Content: "same"},
		{Path: "changed.txt", Content: "before"},
		{Path: "same.bin", Content: base64.StdEncoding.EncodeToString([]byte("\xff\xfe")), Encoding: "base64"},
	}}
	files, omitted := collectFrom(t, req, 1000, func(dir string) error {
		for name, content := range map[string]string{
			"same.txt": "same", "changed.txt": "after!", "same.bin": "\xff\xfe",
			"a b é.csv": "x,y\n", "plot.png": "\x89PNG\xff", "big.bin": strings.Repeat("x", 2000),
			"sub/deep.json": "{}", "__pycache__/m.pyc": "code",
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	want := []wire.File{
		{Path: "a b é.csv", Size: 4, MediaType: "text/csv", Content: "x,y\n", Encoding: "utf-8"},
		{Path: "changed.txt", Size: 6, MediaType: "text/plain", Content: "after!", Encoding: "utf-8"},
		{Path: "plot.png", Size: 5, MediaType: "image/png", Content: base64.StdEncoding.EncodeToString([]byte("\x89PNG\xff")), Encoding: "base64"},
		{Path: "sub/deep.json", Size: 2, MediaType: "application/json", Content: "{}", Encoding: "utf-8"},
	}
	if fmt.Sprint(files) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", files, want)
	}
	if len(omitted) != 1 || !strings.Contains(omitted["big.bin"], "1000 bytes") {
		t.Errorf("omitted %v", omitted)
	}
}

// Names that are not UTF-8 are told apart, and so are those that look like what
// stands for them; a file in a folder of such a name as well.
func TestCollectNamesEachFile(t *testing.T) {
	content := map[string]string{
		"\xff.txt": "1", "\xfe.txt": "2", `\xff.txt`: "3", `\xfe.txt~2`: "4", `\xfe.txt`: "5",
		"\xc3.d/f": "6", "é\xe9": "7", "\ufffd": "8", "\xed\xa0\x80": "9", "big\xff": strings.Repeat("x", 200),
	}
	files, omitted := collectFrom(t, &wire.Request{}, 100, func(dir string) error {
		for name, text := range content {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				return err
			}
		}
		return os.Symlink("/", filepath.Join(dir, "link\xff"))
	})
	got := map[string]string{}
	for _, f := range files {
		got[f.Path] = f.Content
	}
	want := map[string]string{
		`\xff.txt`: "3", `\xff.txt~2`: "1", `\xfe.txt`: "5", `\xfe.txt~2`: "4", `\xfe.txt~3`: "2",
		`\xc3.d/f`: "6", `é\xe9`: "7", "\ufffd": "8", `\xed\xa0\x80`: "9",
	}
	if len(files) != len(want) || !maps.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(omitted) != 2 || omitted[`big\xff`] == "" || omitted[`link\xff`] == "" {
		t.Errorf("omitted %q", omitted)
	}
}

// What is not a plain file is named, and neither followed nor waited for.
func TestCollectFollowsNothing(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, omitted := collectFrom(t, &wire.Request{}, 1<<20, func(dir string) error {
		if err := os.Symlink(secret, filepath.Join(dir, "link")); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "folder")); err != nil {
			return err
		}
		return syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644)
	})
	if len(files) != 0 || len(omitted) != 3 || omitted["link"] == "" || omitted["fifo"] == "" || omitted["folder"] == "" {
		t.Errorf("files %v, omitted %v", files, omitted)
	}
}

// A program may leave more files than anybody wants to read.
func TestCollectIsBounded(t *testing.T) {
	files, omitted := collectFrom(t, &wire.Request{}, 1<<20, func(dir string) error {
		for i := range 1000 {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d", i)), nil, 0o644); err != nil {
				return err
			}
		}
		return nil
	})
	if len(files) != MaxFiles || len(omitted) != maxOmitted+1 || !strings.HasPrefix(omitted["…"], "700 more") {
		t.Errorf("%d files, %d omitted, %q", len(files), len(omitted), omitted["…"])
	}
}

func TestTouched(t *testing.T) {
	f := func(names []string, want bool) {
		t.Helper()
		path := t.TempDir()
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(path, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		dir, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if touched(dir) != want {
			t.Errorf("touched with %v is %v", names, !want)
		}
	}
	f(nil, false)
	f([]string{"main.py"}, false)
	f([]string{"main.py", "out"}, true)
	f([]string{"out"}, true)
}

// A deep tree is not walked to its end: each entry costs a walk down to it.
func TestCollectLooksSoDeep(t *testing.T) {
	const deepest = 200
	files, omitted := collectFrom(t, &wire.Request{}, 1000, func(dir string) error {
		if err := os.MkdirAll(filepath.Join(dir, strings.Repeat("d/", maxDepth)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, strings.Repeat("d/", maxDepth)+"f"), []byte("x"), 0o644); err != nil {
			return err
		}
		fd, err := syscall.Open(filepath.Join(dir, strings.Repeat("d/", maxDepth)), syscall.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer func() { syscall.Close(fd) }()
		for range deepest {
			if err := syscall.Mkdirat(fd, "d", 0o755); err != nil {
				return err
			}
			below, err := syscall.Openat(fd, "d", syscall.O_RDONLY, 0)
			if err != nil {
				return err
			}
			syscall.Close(fd)
			fd = below
		}
		return nil
	})
	at := strings.TrimSuffix(strings.Repeat("d/", maxDepth), "/")
	if len(files) != 1 || files[0].Path != at+"/f" || !strings.Contains(omitted[at+"/d"], "32 deep") || len(omitted) != 1 {
		t.Errorf("files %v, omitted %v", files, omitted)
	}
}

// A program that owns its working directory may close it; its files come back.
func TestCollectFromAClosedFolder(t *testing.T) {
	files, _ := collectFrom(t, &wire.Request{}, 1000, func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o644)
	}, 0)
	if len(files) != 1 {
		t.Errorf("files %v", files)
	}
}

// Bytes that are no text are not called text.
func TestMediaTypeOfBytes(t *testing.T) {
	f := func(name, content, want string) {
		t.Helper()
		if got := mediaType(name, []byte(content)); got != want {
			t.Errorf("%s with %q: %s, not %s", name, content, got, want)
		}
	}
	// One byte that starts no character.
	f("x", "\xff", "application/octet-stream")
	// Text stays text.
	f("x", "é", "text/plain")
}
