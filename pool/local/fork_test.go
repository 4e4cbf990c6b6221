package local

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// A module that is imported ahead finds itself in a sandbox as after os.fork.
func TestPreloadAndFork(t *testing.T) {
	f := func(module, code, stdout string) {
		t.Helper()
		folder := t.TempDir() // open to the user of sandboxes
		for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(folder, "ahead.py"), []byte(module), 0o644); err != nil {
			t.Fatal(err)
		}
		d := newDriver(t, func(o *Options) { o.Python.Path = append([]string{folder}, o.Python.Path...) })
		with := template()
		with.Preload = []string{"ahead"}
		s, err := d.Start(t.Context(), with)
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.Run(t.Context(), &wire.Request{Code: code, TimeoutSeconds: 20}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.Stdout != stdout || res.Outcome != wire.OK {
			t.Errorf("got %q %q, outcome %q; want %q", res.Stdout, res.Stderr, res.Outcome, stdout)
		}
	}
	const hooks = `
import os
said = []
os.register_at_fork(before=lambda: said.append("before"), after_in_child=lambda: said.append("child"),
                    after_in_parent=lambda: said.clear())
`
	// Its hooks have run, once each.
	f(hooks, "import ahead; print(*ahead.said)", "before child\n")
	// And they run when the program forks, once each.
	f(hooks, `
import ahead, os
ahead.said.clear()
if os.fork() == 0:
    print(*ahead.said, flush=True)
    os._exit(0)
os.wait()
print(ahead.said)
`, "before child\n[]\n")
	// Its thread is not in the sandbox, and nobody waits for that thread.
	f(`
import threading, time
threading.Thread(target=time.sleep, args=(1e6,)).start()
`, "import threading; print(threading.active_count())", "1\n")
}
