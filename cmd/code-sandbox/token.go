package main

import (
	"crypto/rand"
	"fmt"
	"net"
	"os"

	"github.com/code-sandbox/code-sandbox/cmd/toolflags"
	"github.com/code-sandbox/code-sandbox/toolproxy"
)

// takeToken takes the token of tool calls from the environment, or makes one for
// the agent. No process that is started from here inherits the variable.
func (o *localOptions) takeToken() error {
	o.token = os.Getenv(toolproxy.TokenEnv)
	if err := os.Unsetenv(toolproxy.TokenEnv); err != nil {
		return err
	}
	if o.token == "" && len(o.agent) > 0 {
		o.token = rand.Text()
	}
	if o.token == "" {
		return nil
	}
	if err := toolproxy.CheckToken(o.token); err != nil {
		return fmt.Errorf("%w: the environment's %s is no good token: %w", errUsage, toolproxy.TokenEnv, err)
	}
	return nil
}

// door lets in who shows the token. Every user of this machine reaches the port:
// without a token nobody may call tools, which run with an agent's files.
func door(token string) toolproxy.Door {
	if token == "" {
		return toolproxy.Closed("this service takes no tool calls, since it was started without a token: start it beside the agent (code-sandbox local -- AGENT), " +
			"or with " + toolproxy.TokenEnv + " in its environment and in the agent's")
	}
	return toolproxy.Bearer(token)
}

// agentEnv is what an agent's environment gets beside the hook.
func agentEnv(o toolflags.Options, service net.Addr, token string) []string {
	return append(o.Environment(), "CODE_SANDBOX_URL=http://"+service.String(), toolproxy.TokenEnv+"="+token)
}
