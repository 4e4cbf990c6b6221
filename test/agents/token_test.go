package agents

import (
	"path/filepath"
	"strings"
	"testing"
)

// An agent's service is for the agent alone: another user of the machine, who
// reaches the port, has no token, and neither has a tool in its sandbox.
func TestTokenIsTheAgentsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "token")
	copyProject(t, "token", dir)
	f := func(env []string, args ...string) {
		t.Helper()
		got := run(t, command(t, dir, env, append(args, "--", python, "agent.py")...))
		_, result, _ := strings.Cut(got.stdout, "RESULT ")
		if want := `{"error": "no", "found": [], "length": 26, "others": [401, 401, 401, 401], "own": 200}`; got.code != 0 || strings.TrimSpace(result) != want {
			t.Errorf("%+v", got)
		}
	}
	args := []string{"local", "--python", python, "--tool-functions", "tools:*"}
	f(nil, args...)
	// Though all variables may cross, and though the service has the token from its own environment.
	f([]string{"CODE_SANDBOX_TOKEN=abcdefghijklmnopqrstuvwxyz"}, append(args, "--tool-env-allow", "*,!*,!CODE_SANDBOX_TOKEN")...)
}
