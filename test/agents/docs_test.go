package agents

import (
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The commands of docs/tool-calls.md run as they stand, and say what the page says.
func TestDocumentedCommands(t *testing.T) {
	page, err := os.ReadFile("../../docs/tool-calls.md")
	if err != nil {
		t.Fatal(err)
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	f := func(index int, says ...string) {
		t.Helper()
		script := "set -e\nexport CODE_SANDBOX_PYTHON=" + python + "\n" + strings.ReplaceAll(blocks[index][1], "../../../bin/code-sandbox", path)
		script = strings.ReplaceAll(strings.ReplaceAll(script, "\npython3 ", "\n"+python+" "), "-- python3 ", "-- "+python+" ")
		script = strings.ReplaceAll(script, "8123", freePort(t))
		root := t.TempDir()
		if err := os.CopyFS(root+"/docs/examples", os.DirFS("../../docs/examples")); err != nil {
			t.Fatal(err)
		}
		cmd := command(t, root, nil)
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script}
		if err := os.Chmod(root, 0o755); err != nil {
			t.Fatal(err)
		}
		got := run(t, cmd)
		if lines := answers(got.stdout); got.code != 0 || strings.Join(lines, "\n") != strings.Join(says, "\n") {
			t.Errorf("block %d: %d %q\n%s", index, got.code, lines, got.stderr)
		}
	}
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands", len(blocks))
	}
	key, none := "The tool said: my key is sk-demo-0123456789abcdef", "The tool said: my key is code-sandbox-redacted"
	f(0, key, none, key, key, key, key)
	f(1, `The tool said: """A tool that needs a host."""`, "The tool failed", "The tool failed")
}

// freePort is one that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// answers are the lines that the examples print, less what errors go on with.
func answers(stdout string) []string {
	var lines []string
	for line := range strings.Lines(stdout) {
		if line, ok := strings.CutPrefix(strings.TrimSpace(line), "The tool "); ok {
			if strings.HasPrefix(line, "failed") {
				line = "failed"
			}
			lines = append(lines, "The tool "+line)
		}
	}
	return lines
}
