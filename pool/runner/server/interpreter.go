package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/runner"
	"github.com/code-sandbox/code-sandbox/pool/runner/python"
	"github.com/code-sandbox/code-sandbox/pool/runner/seccomp"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	maxWord = 64 << 10 // bytes of the interpreter's word that it is ready
	// interrupt is the bootstrap's INTERRUPT.
	interrupt = syscall.Signal(64)
	// firstLine is what the interpreter starts with: no file of ours is written.
	firstLine = `import json, os
with os.fdopen(4, "rb") as f: told = json.load(f)
exec(compile(told["pod"], "pod.py", "exec"))`
)

// Interpreter is a started interpreter that waits for its one run.
type Interpreter struct {
	Process   *runner.Process
	Python    string            // its version
	Preloaded []string          // what was imported ahead
	Refused   map[string]string // what could not be, and why
	// Lost is closed when it has ended before a run was given to it.
	Lost <-chan struct{}
}

// ends are our ends of an interpreter's descriptors, and theirs.
type ends struct {
	control     net.Conn
	out, err    *os.File
	program     *os.File // we write it
	theirs      [5]*os.File
	closeTheirs func()
}

// StartInterpreter starts the interpreter of a pod and waits until it is ready.
func StartInterpreter(ctx context.Context, c wire.RunnerConfig) (*Interpreter, error) {
	told, err := json.Marshal(map[string]any{
		"bootstrap": string(python.Bootstrap), "pod": string(python.Pod),
		"control": 3, "work": c.Work, "preload": append([]string{}, c.Preload...),
	})
	if err != nil {
		return nil, err
	}
	work, err := os.Open(c.Work)
	if err != nil {
		return nil, fmt.Errorf("cannot open the working directory: %w", err)
	}
	e, err := newEnds()
	if err != nil {
		return nil, err
	}
	i, err := e.start(c, work, command{
		argv: []string{c.Python, "-I", "-B", "-c", firstLine}, env: environment(c), dir: c.Work,
	})
	if err != nil {
		return nil, err
	}
	go func() {
		defer e.program.Close()
		e.program.Write(told) //nolint:errcheck // it fails only where the interpreter has ended, which await tells
	}()
	word, err := e.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("the interpreter did not get ready: %w; it said: %s", err, e.said())
	}
	i.Python, i.Preloaded, i.Refused = word.Python, word.Preloaded, word.Refused
	return i, nil
}

// command is how an interpreter is started.
type command struct {
	argv, env []string
	dir       string
}

// start starts the interpreter's process and watches over all that comes of it.
func (e *ends) start(c wire.RunnerConfig, work *os.File, how command) (*Interpreter, error) {
	spare, err := runner.NewReserve(work.Name())
	if err != nil {
		return nil, err
	}
	leader, err := execute(c, e, how)
	if err != nil {
		return nil, fmt.Errorf("cannot start the interpreter: %w", err)
	}
	tree := watchTree(leader.Pid)
	if !slices.Contains(c.Without, "rlimits") {
		if err := bound(leader.Pid, c.Limits); err != nil {
			return nil, err
		}
	}
	events := memoryEvents()
	before := oomKills(events)
	return &Interpreter{Lost: tree.gone, Process: &runner.Process{
		Control: e.control, Stdout: e.out, Stderr: e.err, WorkDir: work, Reserve: spare, Exited: tree.exited,
		Interrupt: func() { _ = leader.Signal(interrupt) }, // it fails only where the interpreter has ended
		Kill:      tree.kill, Gone: tree.end,
		OOMKills: func() bool {
			if oomKills(events) <= before { // fewer, where it cannot be read
				return false
			}
			awaitRoom(events)
			return true
		},
	}}, nil
}

// execute starts the interpreter's process, under the filter of system calls.
func execute(c wire.RunnerConfig, e *ends, how command) (leader *os.Process, err error) {
	defer e.closeTheirs()
	start := func() (err error) {
		leader, err = os.StartProcess(how.argv[0], how.argv, &os.ProcAttr{
			Dir: how.dir, Env: how.env, Files: e.theirs[:], Sys: &syscall.SysProcAttr{Setsid: true},
		})
		return err
	}
	if slices.Contains(c.Without, "seccomp") {
		err = start()
		return leader, err
	}
	err = seccomp.Do(start)
	return leader, err
}

// environment is the whole environment of programs, but for what a run adds.
func environment(c wire.RunnerConfig) []string {
	return []string{
		"PATH=" + filepath.Dir(c.Python) + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + c.Temp, "TMPDIR=" + c.Temp,
		"LANG=C.UTF-8", "USER=sandbox", "MPLBACKEND=Agg", "MPLCONFIGDIR=" + c.Temp + "/.matplotlib",
		"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
	}
}

// newEnds makes the descriptors: input at end of file, two outputs, the control
// socket, and the program.
func newEnds() (*ends, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("cannot open the null device: %w", err)
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket: %w", err)
	}
	var pipes [3][2]int
	for i := range pipes {
		if err := syscall.Pipe2(pipes[i][:], syscall.O_CLOEXEC); err != nil {
			return nil, fmt.Errorf("cannot make a pipe: %w", err)
		}
	}
	ours := os.NewFile(uintptr(pair[0]), "control")
	defer ours.Close()
	control, err := net.FileConn(ours) // duplicates
	if err != nil {
		return nil, fmt.Errorf("cannot use the control socket: %w", err)
	}
	e := &ends{control: control, program: os.NewFile(uintptr(pipes[2][1]), "program")}
	for i, to := range []**os.File{&e.out, &e.err} {
		if err := syscall.SetNonblock(pipes[i][0], true); err != nil {
			return nil, fmt.Errorf("cannot use a pipe: %w", err)
		}
		*to = os.NewFile(uintptr(pipes[i][0]), "output")
	}
	e.theirs = [5]*os.File{
		null, os.NewFile(uintptr(pipes[0][1]), "stdout"), os.NewFile(uintptr(pipes[1][1]), "stderr"),
		os.NewFile(uintptr(pair[1]), "control"), os.NewFile(uintptr(pipes[2][0]), "program"),
	}
	e.closeTheirs = func() {
		for _, f := range e.theirs {
			f.Close()
		}
	}
	return e, nil
}

// await reads the interpreter's word: a line of JSON, then "R".
func (e *ends) await(ctx context.Context) (*Interpreter, error) {
	stop := context.AfterFunc(ctx, func() { e.control.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var said []byte
	for chunk := make([]byte, 4<<10); !bytes.HasSuffix(said, []byte("\nR")); {
		n, err := e.control.Read(chunk)
		said = append(said, chunk[:max(n, 0)]...)
		if len(said) > maxWord {
			err = errors.New("it says too much")
		}
		if err != nil {
			return nil, err
		}
	}
	var word struct {
		Python    string            `json:"python"`
		Preloaded []string          `json:"preloaded"`
		Refused   map[string]string `json:"refused"`
	}
	if err := json.Unmarshal(said[:len(said)-2], &word); err != nil {
		return nil, err
	}
	return &Interpreter{Python: word.Python, Preloaded: word.Preloaded, Refused: word.Refused}, nil
}

// said is the last line of what the interpreter wrote before it was ready.
func (e *ends) said() string {
	e.err.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	b, _ := io.ReadAll(io.LimitReader(e.err, 64<<10))
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	if last := lines[len(lines)-1]; len(last) > 0 {
		return string(last)
	}
	return "nothing"
}
