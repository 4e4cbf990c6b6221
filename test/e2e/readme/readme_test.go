//go:build e2e

// Package readme runs the commands of the README on a real cluster, as they
// stand there.
package readme

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

const (
	root = "../../.."
	// patience bounds one block of commands.
	patience = 4 * time.Minute
)

// The quick start: images are there, in place of those that the reader builds;
// the rest is run as pasted.
func TestKubernetesQuickStart(t *testing.T) {
	s := e2e.NewSpace(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## On Kubernetes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section, -1)
	if !found || len(blocks) != 4 {
		t.Fatalf("the section has %d blocks of commands, want those for images, use, tools and removal", len(blocks))
	}
	use, tools, removal := blocks[1][1], blocks[2][1], blocks[3][1]
	t.Cleanup(func() {
		if out, err := shell(context.WithoutCancel(t.Context()), s, removal); err != nil {
			t.Errorf("cannot remove it as the README says: %v: %s", err, out)
		}
	})
	out, err := shell(t.Context(), s, use)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; !regexp.MustCompile(`^42 from sb-[a-z0-9]+ in pod$`).MatchString(last) {
		t.Errorf("the agent said %q", last)
	}
	// The same agent's tool without us and with us, as the page shows it.
	out, err = shell(t.Context(), s, tools)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := "The tool said: my key is sk-demo-0123456789abcdef\nThe tool said: my key is code-sandbox-redacted\n"; !strings.HasSuffix(out, want) ||
		!strings.Contains(section, "```\n"+want+"```") {
		t.Errorf("the agents said %q", out)
	}
}

// shell runs commands as a reader's shell does that stops at the first failure.
func shell(ctx context.Context, s *e2e.Space, commands string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", commands)
	cmd.Dir = root
	home := filepath.Join(s.Bed.Work, "helm")
	cmd.Env = append(os.Environ(), s.Bed.Env()...)
	cmd.Env = append(cmd.Env, "PATH="+s.Bed.Bin+":"+os.Getenv("PATH"), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home,
		"IMAGE="+repository(s, "code-sandbox"), "SANDBOX_IMAGE="+repository(s, "python"), "AGENT_IMAGE="+repository(s, "agent-demo"), "TAG=latest")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// repository is an image of the bed without its digest; the bed's registry has
// the tag "latest" of each.
func repository(s *e2e.Space, name string) string {
	name, _, _ = strings.Cut(s.Image(name), "@")
	return name
}
