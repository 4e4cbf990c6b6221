// Command code-sandbox runs untrusted Python in one-use sandboxes on this
// machine, and talks to a service that does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

const usage = `code-sandbox runs code that an AI agent wrote, each piece in a locked-down computer of its own that is then thrown away.

  code-sandbox local [flags]   serve run_python on this machine
  code-sandbox run FILE|-      run a program there: its output, its exit code, its files
  code-sandbox version         print the version

"code-sandbox COMMAND -h" lists the flags of a command. Each flag can be set by
an environment variable too: --admin-listen by CODE_SANDBOX_ADMIN_LISTEN.
`

// errUsage marks a mistake in how the program was called: exit code 2.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// After the first signal the default is back: a second one ends the process.
	context.AfterFunc(ctx, stop)
	os.Exit(status(command(ctx, os.Args[1:])))
}

// exitCode ends the process with a program's exit code; all has been said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("the program's exit code is %d", int(c)) }

// status says what went wrong, and is the exit code for it.
func status(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	fmt.Fprintf(os.Stderr, "code-sandbox: %v\n", err)
	switch {
	case errors.Is(err, errUsage):
		return 2
	case errors.Is(err, errRun):
		return runFailed
	}
	return 1
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("%w: name a command", errUsage)
	}
	switch args[0] {
	case "local":
		opts, err := parseLocal(args[1:])
		if err != nil {
			return err
		}
		return runLocal(ctx, opts)
	case "run":
		opts, err := parseRun(args[1:])
		if err != nil {
			return err
		}
		return run(ctx, opts)
	case "version":
		fmt.Println("code-sandbox", version())
		return nil
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("%w: there is no command %q; see code-sandbox help", errUsage, args[0])
}
