// Command cluster starts, uses and ends the test cluster. Installed among the
// cluster's programs as "bed", it is the node's first process as well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sort"
	"syscall"

	"github.com/hashicorp/go-hclog"

	"github.com/code-sandbox/code-sandbox/test/cluster"
	"github.com/code-sandbox/code-sandbox/test/cluster/node"
)

const usage = `usage: cluster [-work DIR] [-cache DIR] COMMAND
  build            build the programs that are missing
  images           make the images that are missing, and list them
  up               start the cluster, if it is not up, and print KUBECONFIG
  down             end it and remove all of it but the cache
  status           print what is known of it
  test -- COMMAND  start it, run the command, end it, and check that nothing is left
  exec -- COMMAND  run a command in the node's network
  kubectl ARGS     run kubectl
  ctr ARGS         run containerd's client in the node
  dockerfile       check that the Dockerfile makes the same images
`

// exitUsage is the status for a command that is given wrongly.
const exitUsage = 2

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := call(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

func call(ctx context.Context, args []string) int {
	err := run(ctx, args)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprint(os.Stderr, usage)
		return exitUsage
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return exit.ExitCode()
	default:
		fmt.Fprintln(os.Stderr, "cluster:", err)
		return 1
	}
}

var errUsage = errors.New("wrong usage")

func run(ctx context.Context, args []string) error {
	log := hclog.New(&hclog.LoggerOptions{Name: "cluster", Output: os.Stderr, TimeFormat: "15:04:05.000", Level: hclog.Info})
	if len(args) == 1 && args[0] == "node" {
		plan, err := node.ReadPlan(os.Stdin)
		if err != nil {
			return err
		}
		return node.Run(context.WithoutCancel(ctx), plan, log.Named("node"))
	}
	if len(args) == 1 && args[0] == "world" {
		return node.ServeWorld()
	}
	o := cluster.Options{Log: log, Work: os.Getenv("CODE_SANDBOX_BED_WORK"), Cache: os.Getenv("CODE_SANDBOX_BED_CACHE")}
	flags := flag.NewFlagSet("cluster", flag.ContinueOnError)
	flags.StringVar(&o.Work, "work", o.Work, "folder of the running cluster (CODE_SANDBOX_BED_WORK; default: in the cache)")
	flags.StringVar(&o.Cache, "cache", o.Cache, "folder of programs and images (CODE_SANDBOX_BED_CACHE; default: in the user's cache)")
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	rest := flags.Args()
	if len(rest) == 0 {
		return errUsage
	}
	bed, err := cluster.New(o)
	if err != nil {
		return err
	}
	return command(ctx, bed, rest[0], skipDashes(rest[1:]))
}

func skipDashes(args []string) []string {
	if len(args) > 0 && args[0] == "--" {
		return args[1:]
	}
	return args
}

func command(ctx context.Context, bed *cluster.Bed, name string, args []string) error {
	switch name {
	case "build":
		bin, err := bed.Build(ctx)
		if err == nil {
			fmt.Println(bin)
		}
		return err
	case "images":
		bin, err := bed.Build(ctx)
		if err != nil {
			return err
		}
		images, err := bed.Images(ctx, bin)
		printSorted(images)
		return err
	case "up":
		s, err := bed.Up(ctx)
		if err == nil {
			fmt.Println("KUBECONFIG=" + s.Kubeconfig)
		}
		return err
	case "down":
		return bed.Down(ctx)
	case "status":
		return status(bed)
	case "test":
		return test(ctx, bed, args)
	case "dockerfile":
		return bed.CheckDockerfile(ctx)
	case "exec", "kubectl", "ctr":
		return inside(ctx, bed, name, args)
	}
	return errUsage
}

func printSorted(images map[string]string) {
	var names []string
	for name := range images {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Println(name, images[name])
	}
}
