package runner

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// record is the program's own word about how it ended. It comes from beside
// hostile code: it decides nothing that the program could not have caused.
type record struct {
	ExitCode int         `json:"exit_code"`
	Result   *string     `json:"result"`
	Errors   []exception `json:"errors"`   // outermost first
	Dialling string      `json:"dialling"` // at the deadline: the host of a connection that was not made yet
	call     *spoken     // of a tool call
}

// exception is what the bootstrap tells of an uncaught exception.
type exception struct {
	Type       string   `json:"type"`
	Bases      []string `json:"bases"`
	Errno      int      `json:"errno"`
	Path       string   `json:"path"`
	Unreadable bool     `json:"unreadable"` // what is at Path may not even be read
	Module     string   `json:"module"`
	Message    string   `json:"message"`
	Forking    bool     `json:"forking"` // what raised it makes processes
	Dialled    string   `json:"dialled"` // the host that it says did not answer, or refused
}

func (e exception) is(class string) bool { return slices.Contains(e.Bases, class) }

// ending is all that is known of how a program ended.
type ending struct {
	timeout  time.Duration // set when the deadline ended it
	last     *record       // then: what it said of where it was, if it did
	closed   bool          // no other machine answers in its network
	record   *record
	status   syscall.WaitStatus // when there is no record
	oomKills bool
	limits   wire.Limits
}

// verdict is an ending in the words of a result.
type verdict struct {
	outcome  wire.Outcome
	exitCode int
	reason   string
	denied   []wire.Denial
}

func (e ending) verdict() verdict {
	switch {
	case e.oomKills:
		return e.outOfMemory()
	case e.timeout > 0:
		return e.timedOut()
	case e.record == nil && e.status.Signaled():
		sig := e.status.Signal()
		return verdict{wire.Killed, 128 + int(sig), fmt.Sprintf("The program was ended by signal %d (%s).", int(sig), sig), nil}
	case e.record == nil:
		return exited(e.status.ExitStatus())
	case e.record.ExitCode&0xff != 0 && len(e.record.Errors) > 0:
		return e.raised(e.record.ExitCode & 0xff)
	default:
		return exited(e.record.ExitCode & 0xff)
	}
}

func exited(code int) verdict {
	outcome := wire.OK
	if code != 0 {
		outcome = wire.Failed
	}
	return verdict{outcome, code, fmt.Sprintf("The program ended with exit code %d.", code), nil}
}

// timedOut is the end of a program by its deadline.
func (e ending) timedOut() verdict {
	v := verdict{wire.Timeout, 128 + int(syscall.SIGKILL), fmt.Sprintf(
		"The program did not end within its timeout of %g s; timeout_seconds may be at most %g.",
		e.timeout.Seconds(), e.limits.MaxRun.Seconds()), nil}
	if e.closed && e.last != nil && elsewhere(e.last.Dialling) {
		v.denied = []wire.Denial{wire.DeniedNetwork}
		v.reason += " It was connecting to another machine. " + noNetwork
	}
	return v
}

// outOfMemory is the end of a program of which the limit ended any process:
// whatever it made of that, the work it was asked for is not whole.
func (e ending) outOfMemory() verdict {
	code := 128 + int(syscall.SIGKILL)
	if e.record != nil && e.record.ExitCode != 0 {
		code = e.record.ExitCode & 0xff
	}
	return verdict{wire.OutOfMemory, code, e.memoryReason(), nil}
}

// raised names the cause of an uncaught exception.
func (e ending) raised(code int) verdict {
	first := e.record.Errors[0]
	v := verdict{wire.Failed, code, fmt.Sprintf("The program ended with an uncaught %s.", clip(printable(first.Type, ""), 100)), nil}
	for _, x := range e.record.Errors {
		if outcome, reason := e.limitHit(x); outcome != "" {
			v.outcome, v.reason = outcome, reason
			return v
		}
		if denial, hint := e.denied(x); denial != "" {
			v.denied = []wire.Denial{denial}
			v.reason += " " + hint
			return v
		}
	}
	return v
}

func (e ending) memoryReason() string {
	return fmt.Sprintf("The program used more than its memory limit of %d MiB.", e.limits.MemoryBytes>>20)
}

// room is what the disk holds.
func (e ending) room() string {
	if e.limits.DiskFiles == 0 {
		return fmt.Sprintf("%d MiB", e.limits.DiskBytes>>20)
	}
	return fmt.Sprintf("%d MiB and %d files", e.limits.DiskBytes>>20, e.limits.DiskFiles)
}

// crowd is how many may run, where that is known: the limit may be the node's.
func (e ending) crowd() string {
	if e.limits.Processes == 0 {
		return "processes and threads"
	}
	return fmt.Sprintf("%d processes and threads", e.limits.Processes)
}

// limitHit says whether the exception is a limit of the sandbox at work.
func (e ending) limitHit(x exception) (wire.Outcome, string) {
	switch {
	case x.is("MemoryError"):
		return wire.OutOfMemory, e.memoryReason()
	case x.Errno == int(syscall.ENOSPC) || x.Errno == int(syscall.EDQUOT):
		return wire.DiskFull, fmt.Sprintf("The program filled its disk: the working directory, /tmp and /dev/shm hold %s together.", e.room())
	case x.is("BlockingIOError") && x.Errno == int(syscall.EAGAIN) && x.Forking,
		x.is("RuntimeError") && x.Message == "can't start new thread":
		return wire.ProcessLimit, "The program reached its limit of " + e.crowd() + "."
	}
	return "", ""
}

// noNetwork says what to do without one.
const noNetwork = "A sandbox has no network but DNS lookups; give it data with files or stdin."

// elsewhere says whether a host that was dialled is another machine. A name without
// a dot may be the sandbox's own.
func elsewhere(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return !addr.Unmap().IsLoopback() && !addr.IsUnspecified()
	}
	dot := strings.Contains(strings.Trim(host, "."), ".")
	return dot && strings.ContainsFunc(host, unicode.IsLetter)
}

// denied says whether the exception is something a sandbox refuses by design,
// and what to do about it.
func (e ending) denied(x exception) (wire.Denial, string) {
	errno := syscall.Errno(x.Errno)
	switch {
	case x.is("ModuleNotFoundError") && x.Module != "":
		return wire.DeniedPackage, fmt.Sprintf(
			"There is no module %q in the sandbox, and nothing can be installed from inside: it has no network.", clip(x.Module, 100))
	case x.is("gaierror") || errno == syscall.ENETUNREACH || errno == syscall.EHOSTUNREACH, e.closed && elsewhere(x.Dialled):
		return wire.DeniedNetwork, noNetwork
	case errno == syscall.EACCES && x.Forking:
		return "", "" // a file that is no program, which the sandbox has no say in
	case errno == syscall.EROFS, (errno == syscall.EACCES || errno == syscall.EPERM) && x.Path != "" && !x.Unreadable:
		return wire.DeniedFilesystem, "Only the working directory and /tmp can be written."
	case errno == syscall.EACCES && x.Unreadable, errno == syscall.EPERM, errno == syscall.ENOSYS, errno == syscall.EAFNOSUPPORT:
		return wire.DeniedOperation, "The sandbox refuses this operation."
	}
	return "", ""
}

// printable writes what is no printable character, nor in kept, as Go and Python
// do: a sentence of ours must not move a terminal's cursor or hide its own end.
func printable(s, kept string) string {
	var text strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) || strings.ContainsRune(kept, r) {
			text.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		text.WriteString(quoted[1 : len(quoted)-1])
	}
	return text.String()
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return toText(trimEnd([]byte(s[:n]))) + "…"
}
