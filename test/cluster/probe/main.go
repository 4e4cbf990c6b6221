// Command probe is what tests of the cluster put into pods: it serves, it
// tries to reach addresses, and it needs nothing beside itself in its image.
package main

import (
	"fmt"
	"os"
)

const usage = `usage: probe serve ADDRESS                 answer every request with 200
       probe webhook ADDRESS CERT KEY [PATCH]
                                           admit every pod over TLS, with a patch; without one, an annotation
       probe dial TARGET...                say of each host:port "open" or "closed", of each name its address
       probe eat MIB                       use memory
       probe sleep
`

func main() {
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(command string, args []string) error {
	switch {
	case command == "serve" && len(args) == 1:
		return serve(args[0])
	case command == "webhook" && len(args) == 3:
		return webhook(args[0], args[1], args[2], mark)
	case command == "webhook" && len(args) == 4:
		return webhook(args[0], args[1], args[2], args[3])
	case command == "dial":
		dial(args)
		return nil
	case command == "eat" && len(args) == 1:
		return eat(args[0])
	case command == "sleep":
		return sleep()
	}
	fmt.Fprint(os.Stderr, usage)
	return fmt.Errorf("cannot do %q with %d arguments", command, len(args))
}
