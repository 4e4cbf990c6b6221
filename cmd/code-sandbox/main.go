// Command code-sandbox runs untrusted Python in one-use sandboxes on this
// machine, and talks to a service that does.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/cmd/program"
	"github.com/code-sandbox/code-sandbox/cmd/version"
)

const usage = `code-sandbox runs code that an AI agent wrote, each piece in a locked-down computer of its own that is then thrown away.

  code-sandbox local [flags]                  serve run_python and tool calls on this machine
  code-sandbox local [flags] -- COMMAND ...   run an agent; each call of its tools runs in a sandbox
  code-sandbox tools [flags] -- COMMAND ...   run an agent as it is, and say where its tools would run
  code-sandbox run FILE|-                     run a program on a service: its output, its exit code, its files
  code-sandbox version                        print the version

"code-sandbox COMMAND -h" lists the flags of a command. Each flag can be set by
an environment variable too: --admin-listen by CODE_SANDBOX_ADMIN_LISTEN.
Tool calls of agents that "local" did not start itself need a token of yours in
CODE_SANDBOX_TOKEN, in its environment and in theirs.
`

// errUsage marks a mistake in how the program was called: exit code 2.
var errUsage = flags.ErrUsage

// exitCode ends the process with a program's exit code; all has been said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("the program's exit code is %d", int(c)) }

func main() {
	os.Exit(status(command(os.Args[1:])))
}

// status says what went wrong, and is the exit code for it.
func status(err error) int {
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	code := program.Status("code-sandbox", err)
	if code == 1 && (errors.Is(err, errRun) || errors.Is(err, errKeep)) {
		return runFailed
	}
	return code
}

func command(args []string) error {
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
		if len(opts.agent) > 0 {
			return runLocalAgent(opts)
		}
		ctx, hurry := program.UntilSignals()
		opts.hurry = hurry
		return runLocal(ctx, opts)
	case "tools":
		opts, err := parseTools(args[1:])
		if err != nil {
			return err
		}
		return runTools(opts)
	case "run":
		opts, err := parseRun(args[1:])
		if err != nil {
			return err
		}
		return run(program.UntilSignal(), opts)
	case "version", "--version":
		fmt.Println("code-sandbox", version.Of())
		return nil
	case "help", "-h", "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("%w: there is no command %q; see code-sandbox help", errUsage, args[0])
}
