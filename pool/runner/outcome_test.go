package runner

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

func signal(s syscall.Signal) syscall.WaitStatus { return syscall.WaitStatus(s) }
func exit(code int) syscall.WaitStatus           { return syscall.WaitStatus(code << 8) }

func raised(x ...exception) *record { return &record{ExitCode: 1, Errors: x} }

func TestVerdict(t *testing.T) {
	f := func(e ending, outcome wire.Outcome, code int, reason string, denied ...wire.Denial) {
		t.Helper()
		e.limits = wire.DefaultLimits()
		v := e.verdict()
		if v.outcome != outcome || v.exitCode != code || !strings.Contains(v.reason, reason) || !slices.Equal(v.denied, denied) {
			t.Errorf("got %s, exit code %d, %q, denied %v; want %s, %d, %q, %v", v.outcome, v.exitCode, v.reason, v.denied, outcome, code, reason, denied)
		}
	}
	// Its own end.
	f(ending{record: &record{}}, wire.OK, 0, "exit code 0")
	f(ending{record: &record{ExitCode: 3}}, wire.Failed, 3, "exit code 3")
	// An exit code that is none is brought into range.
	f(ending{record: &record{ExitCode: -1}}, wire.Failed, 255, "exit code 255")
	// Without a record: os._exit, or a signal.
	f(ending{status: exit(44)}, wire.Failed, 44, "exit code 44")
	f(ending{status: exit(0)}, wire.OK, 0, "exit code 0")
	f(ending{status: signal(syscall.SIGSEGV)}, wire.Killed, 139, "signal 11 (segmentation fault)")
	f(ending{status: signal(syscall.SIGABRT)}, wire.Killed, 134, "signal 6")
	// Our own end of it.
	f(ending{timeout: time.Second, status: signal(syscall.SIGKILL)}, wire.Timeout, 137, "timeout of 1 s")
	// A limit.
	f(ending{status: signal(syscall.SIGKILL), oomKills: true}, wire.OutOfMemory, 137, "512 MiB")
	f(ending{record: &record{}, oomKills: true}, wire.OutOfMemory, 137, "512 MiB")
	f(ending{record: raised(exception{Type: "MemoryError", Bases: []string{"MemoryError"}})}, wire.OutOfMemory, 1, "512 MiB")
	f(ending{record: raised(exception{Bases: []string{"OSError"}, Errno: 28})}, wire.DiskFull, 1, "256 MiB")
	f(ending{record: raised(exception{Bases: []string{"BlockingIOError"}, Errno: 11, Forking: true})}, wire.ProcessLimit, 1, "128 processes")
	// An empty pipe that nobody waits for raises the same.
	f(ending{record: raised(exception{Type: "BlockingIOError", Bases: []string{"BlockingIOError"}, Errno: 11})}, wire.Failed, 1, "uncaught BlockingIOError")
	f(ending{record: raised(exception{Bases: []string{"RuntimeError"}, Message: "can't start new thread"})}, wire.ProcessLimit, 1, "128 processes")
	// What would move a terminal's cursor, or turn the rest around, is written out.
	f(ending{record: raised(exception{Type: "\x1b[31mRed\r\n\u202eé"})}, wire.Failed, 1, `uncaught \x1b[31mRed\r\n\u202eé.`)
	f(ending{record: raised(exception{Bases: []string{"ModuleNotFoundError"}, Module: "a\x1bb"})}, wire.Failed, 1, `module "a\x1bb"`, wire.DeniedPackage)
	// An exception, with a hint where the sandbox is the reason.
	f(ending{record: raised(exception{Type: "ValueError", Bases: []string{"ValueError"}})}, wire.Failed, 1, "uncaught ValueError")
	f(ending{record: raised(exception{Type: "ModuleNotFoundError", Bases: []string{"ModuleNotFoundError"}, Module: "requests"})},
		wire.Failed, 1, `no module "requests"`, wire.DeniedPackage)
	f(ending{record: raised(exception{Type: "OSError", Bases: []string{"OSError"}, Errno: 30, Path: "/usr/x"})},
		wire.Failed, 1, "Only the working directory", wire.DeniedFilesystem)
	f(ending{record: raised(exception{Type: "PermissionError", Bases: []string{"OSError"}, Errno: 13, Path: "/etc/x"})},
		wire.Failed, 1, "Only the working directory", wire.DeniedFilesystem)
	// What may not even be read was perhaps only to be read.
	for _, errno := range []int{1, 13} {
		f(ending{record: raised(exception{Type: "PermissionError", Bases: []string{"OSError"}, Errno: errno, Path: "/proc/1/environ", Unreadable: true})},
			wire.Failed, 1, "uncaught PermissionError. The sandbox refuses this operation.", wire.DeniedOperation)
	}
	f(ending{record: raised(exception{Type: "PermissionError", Bases: []string{"OSError"}, Errno: 1})},
		wire.Failed, 1, "refuses this operation", wire.DeniedOperation)
	// The cause may be further down.
	f(ending{record: raised(exception{Type: "URLError", Bases: []string{"URLError"}}, exception{Type: "gaierror", Bases: []string{"gaierror", "OSError"}, Errno: -3})},
		wire.Failed, 1, "no network", wire.DeniedNetwork)
	// A server that is down, and a network that a firewall closes, elsewhere and here.
	refused := func(host string) *record {
		return raised(exception{Type: "ConnectionRefusedError", Bases: []string{"OSError"}, Errno: int(syscall.ECONNREFUSED), Dialled: host})
	}
	for _, host := range []string{"192.0.2.1", "2001:db8::1", "world.example", "::ffff:192.0.2.1"} {
		f(ending{closed: true, record: refused(host)}, wire.Failed, 1, "no network", wire.DeniedNetwork)
		f(ending{record: refused(host)}, wire.Failed, 1, "uncaught ConnectionRefusedError.")
		f(ending{timeout: time.Second, last: &record{Dialling: host}}, wire.Timeout, 137, "timeout of 1 s; timeout_seconds may be at most")
		f(ending{closed: true, timeout: time.Second, last: &record{Dialling: host}}, wire.Timeout, 137, "timeout of 1 s; timeout_seconds may be at most 300. It was connecting", wire.DeniedNetwork)
	}
	for _, host := range []string{"", "127.0.0.1", "::1", "0.0.0.0", "localhost", "::ffff:127.0.0.1", "127.1", "0", "sb-own", "localhost."} {
		f(ending{closed: true, record: refused(host)}, wire.Failed, 1, "uncaught ConnectionRefusedError.")
		f(ending{closed: true, timeout: time.Second, last: &record{Dialling: host}}, wire.Timeout, 137, "timeout of 1 s; timeout_seconds may be at most")
	}
	// An exit code that is none in the end is no failure, whatever comes with it.
	f(ending{record: &record{ExitCode: 256, Errors: []exception{{Bases: []string{"MemoryError"}}}}}, wire.OK, 0, "exit code 0")
}

// A record is hostile: nothing in it may grow or break an answer.
func TestHostileRecord(t *testing.T) {
	e := ending{limits: wire.DefaultLimits(), record: raised(exception{
		Type: strings.Repeat("é", 1<<16), Bases: []string{"ModuleNotFoundError"}, Module: strings.Repeat("\xff", 1<<16),
	})}
	if v := e.verdict(); len(v.reason) > 2000 {
		t.Errorf("the reason has %d bytes", len(v.reason))
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x00\x00\x00\x19{\"exit_code\":1,\"errors\":[]}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := readRecord(strings.NewReader(string(b)))
		if err != nil {
			return
		}
		v := ending{record: rec, limits: wire.DefaultLimits()}.verdict()
		if v.exitCode < 0 || v.exitCode > 255 || !slices.Contains(wire.Outcomes, v.outcome) {
			t.Errorf("the verdict of %q is %+v", b, v)
		}
	})
}
