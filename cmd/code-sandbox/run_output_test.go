package main

import (
	"fmt"
	"strings"
	"testing"
)

// Of an output past the cap the cap's worth is shown as it comes, then how much
// was left out, then the tail: each byte once.
func (s *localService) longOutput(t *testing.T) {
	const limit = 64 << 10 // as --output says
	f := func(lines int) {
		t.Helper()
		var all strings.Builder
		for i := range lines {
			fmt.Fprintln(&all, i)
		}
		whole := all.String()
		want := whole
		if left := len(whole) - limit - limit/2; left > 0 {
			want = whole[:limit] + fmt.Sprintf("\n[… %d bytes left out …]\n", left) + whole[len(whole)-limit/2:]
		}
		got := s.run(fmt.Sprintf("for i in range(%d): print(i)", lines), "-")
		if got.code != 0 || got.stderr != "" || got.stdout != want {
			t.Errorf("%d lines: exit code %d, stderr %q, %d bytes of stdout and want %d", lines, got.code, got.stderr, len(got.stdout), len(want))
		}
	}
	f(100_000)
	f(15_000) // more than the cap, and the tail has all the rest
}
