// Package agents runs agent programs under the built command, as a user would,
// and looks at what they could do.
package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const python = "/usr/bin/python3"

// program builds the command, once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "code-sandbox-agents")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "code-sandbox")
	out, err := exec.Command("go", "build", "-o", path, "../../cmd/code-sandbox").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build: %w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path)) // a temporary folder: nothing depends on it
	}
	os.Exit(code)
}

// command is the program with arguments, in a folder and an environment of its own.
func command(t *testing.T, dir string, env []string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONDONTWRITEBYTECODE=1"}, env...)
	return cmd
}

// ended is how a command ended.
type ended struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, cmd *exec.Cmd) ended {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// copyProject copies a folder of testdata to where any user may read it.
func copyProject(t *testing.T, name, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(to, 0o755); err != nil {
		t.Fatal(err)
	}
}

func plain(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plain")
	copyProject(t, "plain", dir)
	return dir
}

// local are the arguments to run the plain agent.
func local(args ...string) []string {
	return append([]string{"local", "--python", python, "--tool-functions", "tools:*", "--", python, "agent.py"}, args...)
}

// The exit code, the streams and the end by a signal are the agent's own.
func TestPassedThrough(t *testing.T) {
	dir := plain(t)
	f := func(code int, stdout string, args ...string) {
		t.Helper()
		cmd := command(t, dir, nil, local(args...)...)
		cmd.Stdin = strings.NewReader("hello")
		got := run(t, cmd)
		if got.code != code || got.stdout != stdout {
			t.Errorf("%v ended with %d: %q %q", args, got.code, got.stdout, got.stderr)
		}
	}
	f(0, "stdin: hello\n", "exit", "0")
	f(7, "stdin: hello\n", "exit", "7")
	f(128+9, "", "signal", "9")
	got := run(t, command(t, dir, nil, "local", "--python", python, "--", "no-such-program-anywhere"))
	if got.code != 127 || !strings.Contains(got.stderr, "cannot start the agent") {
		t.Errorf("a command that is not there: %+v", got)
	}
}

// A signal to the command reaches the agent, whose own end is the command's.
func TestSignal(t *testing.T) {
	cmd := command(t, plain(t), nil, local("wait")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 8)
	if _, err := out.Read(line); err != nil || string(line) != "waiting\n" {
		t.Fatalf("the agent said %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 42 {
		t.Errorf("the exit code is %d", code)
	}
}

// Nothing of the service is left when the agent has ended.
func TestNothingIsLeft(t *testing.T) {
	tmp := t.TempDir()
	if err := os.Chmod(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	// What a killed service has left goes at the next start; another's stays.
	stale, other := filepath.Join(tmp, "code-sandbox-hook-1-1-9"), filepath.Join(tmp, "code-sandbox-other")
	for _, dir := range []string{stale, other} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got := run(t, command(t, plain(t), []string{"TMPDIR=" + tmp}, local("parallel", "1")...))
	entries, err := os.ReadDir(tmp)
	if err != nil || got.code != 0 || len(entries) != 1 || entries[0].Name() != "code-sandbox-other" {
		t.Errorf("left: %v, %v, %+v", entries, err, got)
	}
}

var callLine = regexp.MustCompile(`tool call ended: .*outcome=(\w+) sandbox=(\S+)`)

// 20 parallel calls have 20 different sandboxes.
func TestParallelCalls(t *testing.T) {
	args := append([]string{"local", "--log-level", "info"}, local("parallel", "20")[1:]...)
	got := run(t, command(t, plain(t), nil, args...))
	ids := map[string]bool{}
	for _, m := range callLine.FindAllStringSubmatch(got.stderr, -1) {
		if m[1] == "ok" {
			ids[m[2]] = true
		}
	}
	if got.code != 0 || len(ids) != 20 {
		t.Errorf("%d sandboxes served 20 calls, exit code %d\n%s", len(ids), got.code, got.stderr)
	}
}

// "tools" runs the agent as it is and says where its tools would run.
func TestTools(t *testing.T) {
	got := run(t, command(t, plain(t), nil, "tools", "--tool-functions", "tools:*", "--", python, "agent.py", "parallel", "3"))
	if got.code != 0 || !regexp.MustCompile(`(?m)^slow +tool-functions +tools:slow +a sandbox +3 `).MatchString(got.stdout) {
		t.Errorf("%+v", got)
	}
	got = run(t, command(t, plain(t), nil, "tools", "--", python, "-c", "print('no tools')"))
	if got.code != 0 || !strings.Contains(got.stdout, "No tool was found") {
		t.Errorf("%+v", got)
	}
}

// Audit mode runs nothing in a sandbox, and counts what it would have run there.
func TestAudit(t *testing.T) {
	args := append([]string{"local", "--tools", "audit", "--summary"}, local("parallel", "4")[1:]...)
	got := run(t, command(t, plain(t), nil, args...))
	if got.code != 0 || !regexp.MustCompile(`(?m)^slow +tool-functions +a sandbox +4$`).MatchString(got.stderr) {
		t.Errorf("%+v", got)
	}
	if !regexp.MustCompile(`(?m)^add +tool-functions +a sandbox +0$`).MatchString(got.stderr) {
		t.Errorf("a tool that was not called: %s", got.stderr)
	}
}

// The model's text runs in the agent without us, and in a sandbox under us.
func TestDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := os.CopyFS(dir, os.DirFS("../../docs/examples/demo")); err != nil {
		t.Fatal(err)
	}
	const key = "sk-demo-0123456789abcdef"
	env := []string{"OPENAI_API_KEY=" + key}
	bare := exec.Command(python, "agent.py")
	bare.Dir, bare.Env = dir, env
	if got := run(t, bare); !strings.Contains(got.stdout, key) {
		t.Errorf("without us: %+v", got)
	}
	got := run(t, command(t, dir, env, "local", "--python", python, "--summary", "--tool-functions", "tools:*", "--", python, "agent.py"))
	if got.stdout != "The tool said: my key is code-sandbox-redacted\n" || !regexp.MustCompile(`run_python +tool-functions +a sandbox +1 `).MatchString(got.stderr) {
		t.Errorf("under us: %+v", got)
	}
}

// T19: no credential of the agent's environment, files or memory can be found from
// a tool; without the sandbox, the same search finds all of them.
func TestT19NoCredentialIsFound(t *testing.T) {
	home := t.TempDir()
	project := filepath.Join(home, "project")
	copyProject(t, "search", project)
	mark := func(kind string) string { return "PLANT-" + kind + "-0123456789abcdef" }
	for path, kind := range map[string]string{
		"project/.env": "dotenv", ".aws/credentials": "aws", ".config/gcloud/application_default_credentials.json": "gcloud",
		"project/token.json": "token", "project/deep/app.keyring": "keyring", "project/.git/config": "git", ".gitconfig": "git",
	} {
		file := filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(mark(kind)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	roots := []string{home, project, "/tmp", "/root", "/home", "/etc", "/run", "/var", "/work", "/dev/shm"}
	env := []string{"HOME=" + home, "SERVICE_KEY=" + mark("env")}
	search := func(cmd *exec.Cmd) map[string][]string {
		t.Helper()
		cmd.Dir, cmd.Env = project, append(cmd.Env, env...)
		got := run(t, cmd)
		_, text, ok := strings.Cut(got.stdout, "FOUND ")
		var found map[string][]string
		if !ok || json.Unmarshal([]byte(text), &found) != nil {
			t.Fatalf("the agent said %+v", got)
		}
		return found
	}
	agent := func(roots ...string) []string {
		b, err := json.Marshal(roots)
		if err != nil {
			t.Fatal(err)
		}
		return []string{python, "agent.py", string(b), mark("proc")}
	}
	without := agent(home)
	found := search(exec.Command(without[0], without[1:]...))
	kinds := []string{"aws", "descriptor", "dotenv", "env", "gcloud", "git", "global", "keyring", "proc", "token"}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, kinds) {
		t.Errorf("without the sandbox the search finds %v: it would miss what is there", got)
	}
	boxed := append([]string{"local", "--python", python, "--tool-functions", "tools:*", "--"}, agent(roots...)...)
	if found := search(command(t, project, nil, boxed...)); len(found) > 0 {
		t.Errorf("found from inside a sandbox: %v", found)
	}
}
