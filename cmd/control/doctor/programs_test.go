package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// plain runs programs with nothing around them, as no sandbox is.
func plain(t *testing.T, code string, to any, args ...string) {
	t.Helper()
	python := "/usr/bin/python3" // one that everybody may run
	if _, err := os.Stat(python); err != nil {
		if python, err = exec.LookPath("python3"); err != nil {
			t.Fatalf("the programs need Python: %v", err)
		}
	}
	cmd := exec.Command(python, append([]string{"-c", code}, args...)...)
	cmd.Dir = t.TempDir()
	if code == lookProgram && os.Geteuid() == 0 { // it would write everywhere
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=10.96.0.1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := json.Unmarshal(out, to); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// Without a sandbox around it, each program does what it tries: it would tell.
func TestProgramsWithoutASandbox(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := gone.Addr().String()
	gone.Close()
	var dial struct{ Said map[string]string }
	plain(t, dialProgram, &dial, l.Addr().String(), dead, "[::ffff:127.0.0.1]:1")
	if dial.Said[l.Addr().String()] != "open" || !strings.HasPrefix(dial.Said[dead], "closed: ") || len(dial.Said) != 3 {
		t.Errorf("it reaches %v", dial.Said)
	}
	var s seen
	plain(t, lookProgram, &s, "localhost", "nobody.invalid")
	if !slices.Contains(s.Tokens, "KUBERNETES_SERVICE_HOST") || len(s.UIDMap) == 0 || !s.found("localhost") || s.found("nobody.invalid") {
		t.Errorf("it sees %+v", s)
	}
	if !slices.Contains(s.Writable, "/var/tmp") {
		t.Errorf("it writes to %q", s.Writable)
	}
	if left, err := filepath.Glob("/var/tmp/.code-sandbox-doctor"); err != nil || len(left) > 0 {
		t.Errorf("it has left %q: %v", left, err)
	}
	plain(t, memoryProgram, &struct{}{}, fmt.Sprint(3*mib))
	var threads struct {
		Started int
		Refused string
	}
	plain(t, processesProgram, &threads, "50")
	if threads.Started != 50 || threads.Refused != "" {
		t.Errorf("it starts %+v", threads)
	}
	var disk struct {
		Written int64
		Refused string
	}
	plain(t, diskProgram, &disk, fmt.Sprint(3*mib))
	if disk.Written != 3*mib || disk.Refused != "" {
		t.Errorf("it writes %+v", disk)
	}
}

func TestTargets(t *testing.T) {
	lookup := func(_ context.Context, host string) ([]string, error) {
		switch host {
		case "pool.x.svc":
			return []string{"10.0.0.7", "10.0.0.8"}, nil
		case "shop.agents.svc":
			return nil, fmt.Errorf("no such host")
		}
		return []string{host}, nil
	}
	p := Places{APIServer: "10.96.0.1:443", NodeIP: "fd00::1", Service: "shop.agents.svc:80", Pool: "pool.x.svc", Internet: []string{"1.1.1.1:443"}}
	got := map[string]string{}
	for _, target := range p.Targets(t.Context(), lookup) {
		got[target.Name] = strings.Join(target.Addresses, " ")
		if got[target.Name] == "" {
			got[target.Name] = target.Missing
		}
	}
	for name, want := range map[string]string{
		"API server": "10.96.0.1:443", "kubelet of a node": "[fd00::1]:10250", "cloud metadata": "169.254.169.254:80 [fd00:ec2::254]:80",
		"another pod": "none is known: set --pod-ip", "service of the agents' namespace": "shop.agents.svc:80 cannot be found: no such host",
		"pool": "10.0.0.7:8443 10.0.0.7:8902 10.0.0.7:8903 10.0.0.8:8443 10.0.0.8:8902 10.0.0.8:8903", "internet": "1.1.1.1:443",
	} {
		if got[name] != want {
			t.Errorf("%s: %q", name, got[name])
		}
	}
}

func TestResolv(t *testing.T) {
	r := ReadResolv("# x\nnameserver 169.254.20.10\nsearch agents.svc.corp.example svc.corp.example corp.example\noptions ndots:5\nnameserver\n")
	if !slices.Equal(r.Servers, []string{"169.254.20.10"}) || r.ClusterName() != "kubernetes.default.svc.corp.example" {
		t.Errorf("%+v, %s", r, r.ClusterName())
	}
	if name := ReadResolv("").ClusterName(); name != "kubernetes.default.svc.cluster.local" {
		t.Error(name)
	}
}
