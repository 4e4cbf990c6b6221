package local

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the zygote fills its heap with leaves no hole that a fork would write in.
func TestHolesAreFilled(t *testing.T) {
	dir, err := filepath.Abs("zygote")
	if err != nil {
		t.Fatal(err)
	}
	f := func(fill, want string) {
		t.Helper()
		// One in sixteen of many objects goes: holes all over the heap.
		cmd := exec.Command("/usr/bin/python3", "-c", `
import heap
for size in (64, 128, 480):
    some = [bytes(size - heap.HEADER) for _ in range(20000)]
    del some[::16]
    kept = `+fill+`
    places = [bytes(size - heap.HEADER) for _ in range(40)]
    pages = {id(p) // 4096 for p in places}
    print(len(pages) <= 3 + 40 * size // 4096)
`)
		cmd.Dir = "/"
		cmd.Env = []string{"PYTHONPATH=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
		out, err := cmd.CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want {
			t.Errorf("with %s: %v, %s", fill, err, got)
		}
	}
	// The next objects stand side by side.
	f("heap.fill()", "True True True")
	// Without, they do not.
	f("None", "False False False")
}
