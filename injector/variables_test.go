package injector

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every variable that the hook reads is set in an agent's container, also where
// the policy says nothing: neither the image nor the pod has a say.
func TestHookReadsNothingThatIsNotSet(t *testing.T) {
	env := container(injectedPod(t, hooked()), "main").Env
	read := map[string]bool{}
	word := regexp.MustCompile(variables + `[A-Z][A-Z_]*`)
	err := filepath.WalkDir("../toolproxy/hook/py", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".py") {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, name := range word.FindAllString(string(raw), -1) {
			read[name] = true
		}
		return err
	})
	if err != nil || len(read) < 12 {
		t.Fatalf("the hook reads %d variables: %v", len(read), err)
	}
	for name := range read {
		if last(env, name) < 0 {
			t.Errorf("the hook reads %s, and nobody sets it", name)
		}
	}
}
