package seccomp

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the runner's filters anew")

// The runner has the filter as a file, for each kind of processor: what this
// package makes.
func TestRunnersFilterIsCurrent(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		want, err := Program(goarch)
		if err != nil {
			t.Fatal(err)
		}
		file := "../runner/seccomp/filter_" + goarch + ".bpf"
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not current: go test ./pool/seccomp/ -run Current -update", file)
		}
	}
}

// Where the numbers of system calls are not known, nothing runs without a filter.
func TestUnknownMachine(t *testing.T) {
	if _, err := Program("riscv64"); err == nil {
		t.Error("a filter was made for a machine that nobody knows")
	}
}
