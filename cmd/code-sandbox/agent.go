package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/cmd/program"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// agentDrain is what runs get to end when their agent has ended.
const agentDrain = 500 * time.Millisecond

// passed are the signals that go on to the agent.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// runLocalAgent runs an agent beside a service of its own, and ends as it does.
func runLocalAgent(o localOptions) error {
	setup := program.UntilSignal()
	s, err := newService(setup, o)
	if err != nil {
		return interrupted(setup, err)
	}
	defer s.close()
	s.template.Preload = nil // what is tested is the isolation
	if err := s.tryOne(setup); err != nil {
		return interrupted(setup, err)
	}
	env := withHook(os.Environ(), s.hook, agentEnv(o.tools, s.sidecar.Addr(), o.token)...)
	code, err := beside(o.agent, env, func(ctx context.Context) error { return s.serve(ctx, func(context.Context) {}) })
	if err != nil {
		return err
	}
	if len(s.proxy.Tools()) == 0 {
		fmt.Fprintln(os.Stderr, "code-sandbox: no tool of the agent was found, so none ran in a sandbox; "+
			"a program that calls its functions by hand names them with --tool-functions 'module:*'")
	}
	nameUnmatched(os.Stderr, &o.tools, s.proxy.Tools())
	switch {
	case o.summary && o.tools.Mode == string(toolproxy.Audit):
		printAudit(os.Stderr, s.proxy.Tools())
	case o.summary:
		printSummary(os.Stderr, s.proxy.Tools(), s.proxy.Used())
	}
	return codeError(code)
}

// interrupted is the end of a start, which a signal may have given up.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return exitCode(runInterrupted)
	}
	return err
}

func codeError(code int) error {
	if code == 0 {
		return nil
	}
	return exitCode(code)
}

// beside runs a command while serve serves, and returns its exit code: 128 and
// the signal's number when a signal ended it.
func beside(argv, env []string, serve func(context.Context) error) (int, error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passed...)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx) }()
	code, err := runCommand(argv, env, signals)
	cancel()
	return code, errors.Join(err, <-served)
}

// runCommand runs a command on this terminal. It stays in our process group, so
// that the terminal's keys reach it, and it can be stopped and continued with us.
func runCommand(argv, env []string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "code-sandbox: cannot start the agent: %v\n", err)
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return 127, nil
		}
		return 126, nil
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				_ = cmd.Process.Signal(sig) // fails only when it has just ended
			}
		case err := <-done:
			if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
				return 0, fmt.Errorf("cannot wait for the agent: %w", err)
			}
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return cmd.ProcessState.ExitCode(), nil
		}
	}
}

// fromTerminal says whether the terminal has sent the signal to the agent as
// well: it does so with its keys, to all of its foreground.
func fromTerminal(sig os.Signal) bool {
	if sig != syscall.SIGINT && sig != syscall.SIGQUIT {
		return false
	}
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
