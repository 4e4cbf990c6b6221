package main

import (
	"fmt"

	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/toolproxy/hook"
)

// layHook is "control hook FOLDER": the injector has an init container do it.
func layHook(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%w: control hook takes a folder, which must be empty", flags.ErrUsage)
	}
	return hook.Lay(args[0])
}
