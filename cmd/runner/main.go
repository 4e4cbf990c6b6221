// Command runner stands in a sandbox: it starts the interpreter, serves one run
// to the pool, and ends.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// errUsage is a command line or a configuration that cannot be worked with.
var errUsage = errors.New("the runner is used wrongly")

const usage = `The runner of a sandbox.

  runner [serve]       serve one run; configured by CODE_SANDBOX_RUNNER
  runner install DIR   copy this program to DIR/runner, and what copies of agents need beside it
  runner record DIR NAME...
                       write variables of the environment into DIR, a file each
  runner health [ADDR] exit 0 if a runner answers at ADDR (127.0.0.1:8901)
`

// main stays on the first thread: what a parent asked the kernel for, a signal when
// it dies, is that thread's alone, and the one that starts this program again is the
// one that survives.
func init() { runtime.LockOSThread() }

func main() {
	err := run(os.Args[1:])
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "runner:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(args []string) error {
	command := "serve"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch {
	case command == "serve" && len(args) <= 1:
		return serve(args)
	case command == "install" && len(args) == 1:
		return install(args[0])
	case command == "record" && len(args) > 1:
		return record(args[0], args[1:])
	case command == "health" && len(args) <= 1:
		return health(args)
	case command == "help" || command == "-h" || command == "--help":
		fmt.Print(usage)
		return nil
	}
	return fmt.Errorf("%w: there is no such command; see runner help", errUsage)
}
