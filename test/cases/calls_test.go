package cases

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// R19: one key is one execution, whoever asks and when; another body is refused.
func TestR19IdempotencyKey(t *testing.T) {
	header := http.Header{"Idempotency-Key": {fmt.Sprintf("cases-%d", time.Now().UnixNano())}}
	body, err := json.Marshal(request{Code: "import os, time; time.sleep(0.3); print(os.urandom(16).hex())"})
	if err != nil {
		t.Fatal(err)
	}
	answers := make([]*answer, 6)
	var group sync.WaitGroup
	for i := range 5 { // at once
		group.Go(func() { answers[i] = shared.post(t, body, header) })
	}
	group.Wait()
	answers[5] = shared.post(t, body, header) // and later
	for _, a := range answers {
		if a.status != http.StatusOK || a.Stdout == "" || a.Stdout != answers[0].Stdout || a.RunID != answers[0].RunID || a.SandboxID != answers[0].SandboxID {
			t.Errorf("status %d, run %s in %s, stdout %q; the first was %s in %s, %q",
				a.status, a.RunID, a.SandboxID, a.Stdout, answers[0].RunID, answers[0].SandboxID, answers[0].Stdout)
		}
	}
	a := shared.post(t, []byte(`{"code": "print(1)"}`), header)
	if a.status != http.StatusConflict || a.Error == nil || a.Error.Code != "conflict" || a.Error.Executed != "no" {
		t.Errorf("another body: status %d, %+v", a.status, a.Error)
	}
}

// R20: a caller that hangs up ends its run within a second.
func TestR20HangUpEndsTheRun(t *testing.T) {
	conn := send(t, shared, request{Code: tellNamespace + "import time; time.sleep(60)", Timeout: 100}, "application/x-ndjson")
	var namespace string
	for lines := bufio.NewScanner(conn); namespace == "" && lines.Scan(); {
		if _, after, ok := strings.Cut(lines.Text(), "pid:["); ok {
			number, _, _ := strings.Cut(after, "]")
			namespace = "pid:[" + number + "]"
		}
	}
	conn.Close()
	shared.gone(t, namespace, time.Second)
	shared.works(t)
}

// send writes a request on a connection of its own and does not wait.
func send(t *testing.T, s *service, req request, accept string) net.Conn {
	t.Helper()
	host := strings.TrimPrefix(s.url, "http://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "POST /run_python HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: %s\r\nContent-Length: %d\r\n\r\n%s",
		host, accept, len(body), body)
	return conn
}

// R20: nothing piles up over 200 hang-ups.
func TestR20TwoHundredHangUps(t *testing.T) {
	shared.works(t)
	before := 0
	if pid := shared.here(); pid != 0 {
		before = len(family(pid))
	}
	var group sync.WaitGroup
	each := 25
	if shared.here() == 0 {
		each = 5 // a sandbox that is a pod takes a second to make anew
	}
	for range 8 {
		group.Go(func() {
			for i := range each {
				conn := send(t, shared, request{Code: "import time; time.sleep(60)", Timeout: 100}, "application/json")
				time.Sleep(time.Duration(i) * 2 * time.Millisecond) // while it waits, starts and runs
				conn.Close()
			}
		})
	}
	group.Wait()
	shared.works(t)
	if shared.here() == 0 {
		return
	}
	// Demand has raised the warm pool: what is left are sandboxes without a run.
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		leased := metric(t, get(t, shared.admin+"/metrics"), `state="leased"`)
		if leased == "0" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s runs are still there", leased)
		}
	}
	const perSandbox, most = 2, 16 // processes of a warm one; warm ones
	if after := len(family(shared.here())); after > before+perSandbox*most {
		t.Errorf("%d processes became %d", before, after)
	}
}

// metric is the value of the first metric whose line holds word.
func metric(t *testing.T, page, word string) string {
	t.Helper()
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") && strings.Contains(line, word) {
			fields := strings.Fields(line)
			return fields[len(fields)-1]
		}
	}
	t.Fatalf("there is no metric with %s in:\n%s", word, page)
	return ""
}

// R21: no run sees what another has left, and no sandbox serves twice.
func TestR21TracesOfOthers(t *testing.T) {
	const places = `import os
places = ["/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/run", "/var/lock", os.environ["HOME"], os.path.expanduser("~"), os.getcwd(), "/", "/dev/mqueue"]
`
	seen := map[string]bool{}
	a := shared.run(t, places+`
for p in places:
    try:
        open(os.path.join(p, "marker-of-another-run"), "w").write("x")
        print(p)
    except OSError:
        pass
os.environ["MARKER"] = "1"`)
	writable, times := []string{"/tmp\n", "/dev/shm\n", "/work\n"}, 20
	if shared.here() != 0 {
		writable, times = append(writable, "/var/tmp\n"), 50 // a pod has it as its image does: not to write to
	}
	for _, p := range writable {
		if !strings.Contains(a.Stdout, p) {
			t.Errorf("%q cannot be written: %q %s", p, a.Stdout, a.Stderr)
		}
	}
	seen[a.SandboxID] = true
	for range times {
		a := shared.run(t, places+`
found = [p for p in places if os.path.exists(os.path.join(p, "marker-of-another-run"))]
print(found, os.environ.get("MARKER"), os.listdir("."), os.listdir("/tmp"), os.listdir("/dev/shm"))`)
		if a.Stdout != "[] None ['main.py'] [] []\n" {
			t.Errorf("a run sees %q", a.Stdout)
		}
		if seen[a.SandboxID] || a.SandboxID == "" {
			t.Errorf("sandbox %q has served before", a.SandboxID)
		}
		seen[a.SandboxID] = true
	}
}

// R22: 200 real programs (60 where each has a pod), four at a time, and no spurious failure.
func TestR22ManyRealPrograms(t *testing.T) {
	const program = `import threading, json
import numpy as np, pandas as pd
frame = pd.DataFrame({"k": ["a", "b"] * 50, "v": np.arange(100.0)})
sums = {}
def work(i):
    sums[i] = float(frame.groupby("k").v.sum().sum() + np.linalg.det(np.eye(20)))
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps(sorted(sums.values())))`
	var group sync.WaitGroup
	each := 50
	if shared.here() == 0 {
		each = 15
	}
	for range 4 {
		group.Go(func() {
			for range each {
				a := shared.run(t, program)
				if a.Stdout != "[4951.0, 4951.0, 4951.0, 4951.0]\n" || a.Outcome != "ok" || a.Stderr != "" {
					t.Errorf("%+v", a)
				}
			}
		})
	}
	group.Wait()
}
