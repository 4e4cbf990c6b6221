package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A configuration is whole, or refused with what is wrong.
func TestParseConfig(t *testing.T) {
	f := func(change func(*wire.RunnerConfig), wrong string) wire.RunnerConfig {
		t.Helper()
		c := wire.RunnerConfig{SecretSHA256: strings.Repeat("a1", 32), Limits: wire.DefaultLimits(), Life: time.Hour}
		change(&c)
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseConfig(text)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("the error is %v", err)
		}
		return got
	}
	// What is empty is filled in.
	c := f(func(*wire.RunnerConfig) {}, "")
	if c.Python != "python3" || c.Address != ":8901" || c.Work != "/work" || c.Temp != "/tmp" || c.Isolation != "pod" {
		t.Errorf("%+v", c)
	}
	f(func(c *wire.RunnerConfig) { c.SecretSHA256 = "a1" }, "secret_sha256")
	f(func(c *wire.RunnerConfig) { c.SecretSHA256 = strings.Repeat("g", 64) }, "secret_sha256")
	f(func(c *wire.RunnerConfig) { c.Limits.MemoryBytes = 0 }, "memory")
	f(func(c *wire.RunnerConfig) { c.Life = 0 }, "life")
	f(func(c *wire.RunnerConfig) { c.Work = "work" }, "absolute")
	f(func(c *wire.RunnerConfig) { c.Work = "/tmp" }, "two absolute paths")
	// A setting that this version does not know, and no JSON at all.
	if _, err := ParseConfig([]byte(`{"sceret_sha256":""}`)); err == nil || !strings.Contains(err.Error(), "unknown field") {
		t.Errorf("the error is %v", err)
	}
	if _, err := ParseConfig(nil); err == nil {
		t.Error("nothing was taken for a configuration")
	}
}

// What a run has left ends a runner; that VOLUMEs are mounted in its folders does not.
func TestCheckFolders(t *testing.T) {
	f := func(folders, files, mounts, wrong string) {
		t.Helper()
		dir := image(t, files, nil)
		for name := range strings.FieldsSeq("work tmp " + folders) {
			if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		var places []string
		for name := range strings.FieldsSeq(mounts) {
			places = append(places, filepath.Join(dir, name))
		}
		err := checkFolders(wire.RunnerConfig{Work: filepath.Join(dir, "work"), Temp: filepath.Join(dir, "tmp")}, places)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%q is not empty", filepath.Join(dir, wrong))) {
			t.Errorf("the error is %v", err)
		}
	}
	f("", "", "", "")
	f("", "", "work tmp", "")
	// The place of a mount, and the folders on the way; what the image has in it.
	f("tmp/cache work/a/b", "", "tmp tmp/cache work work/a/b", "")
	f("", "tmp/cache/model", "tmp tmp/cache", "")
	// What is no mount, beside one and on the way to one.
	f("tmp/cache", "", "tmp", "tmp")
	f("", "tmp/x", "tmp", "tmp")
	f("", "work/x", "work", "work")
	f("tmp/cache", "tmp/x", "tmp/cache", "tmp")
	f("tmp/a/b", "tmp/a/x", "tmp/a/b", "tmp/a")
	f("tmp/a/b tmp/a/c", "", "tmp/a/b", "tmp/a")
	f("tmp/cached", "", "tmp/cache", "tmp")
}

// Whatever is sent as a request is refused or understood, and never more deeply
// nested than a request is.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"code":"print(1)","files":[{"path":"a","content":""}],"env":{"A":"b"},"stdin":null}`))
	f.Add([]byte(`{"code":"` + "\xff" + `"}`))
	f.Add([]byte(`[[[[`))
	f.Add([]byte(`{"timeout_seconds":1e309}`))
	s := &Server{config: wire.RunnerConfig{Limits: wire.DefaultLimits()}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var req wire.Request
		if err := readJSON(bytes.NewReader(body), maxDepth, &req); err != nil {
			return
		}
		if wire.Depth(body) > maxDepth {
			t.Errorf("it is nested %d deep", wire.Depth(body))
		}
		if err := s.check(&req, "n"); err != nil {
			return
		}
		if d := s.timeout(&req); d <= 0 || d > s.config.Limits.MaxRun {
			t.Errorf("its timeout is %s", d)
		}
		if _, err := json.Marshal(req); err != nil {
			t.Errorf("it cannot be handed on: %v", err)
		}
	})
}
