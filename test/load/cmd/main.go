// Command load measures `code-sandbox local` and prints tables; with -check it
// fails where the project's promises are not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load"
)

type options struct {
	env   load.Env
	parts string
	json  string
	check bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var o options
	flag.StringVar(&o.env.Binary, "binary", "", "measure this code-sandbox `program` (default: built from this repository)")
	flag.StringVar(&o.env.Python, "python", plainPython(), "interpreter of the service and of the baselines")
	flag.StringVar(&o.parts, "parts", "start,open,closed,growth,burst,output,memory,data", "`names` of what to measure; fleet and soak are others")
	flag.IntVar(&o.env.Rounds, "rounds", 5, "repeat each measurement and take the median")
	flag.DurationVar(&o.env.Length, "length", 5*time.Second, "length of a load in one round")
	flag.IntVar(&o.env.Baseline, "baseline", 60, "runs of each baseline in one round")
	flag.IntVar(&o.env.SoakRuns, "soak-runs", 2000, "programs of the part soak")
	flag.StringVar(&o.json, "json", "", "write all figures to this `file` too")
	flag.BoolVar(&o.check, "check", false, "fail when a figure does not reach its bound")
	flag.Parse()
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "load: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	names := strings.Split(o.parts, ",")
	titles, err := load.Titles(names)
	if err != nil {
		return err
	}
	o.env.Logf = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	cleanUp, err := prepare(ctx, &o.env, names)
	if err != nil {
		return err
	}
	defer cleanUp()
	sheet, failure := load.Measure(ctx, &o.env, titles)
	if err := sheet.Report(os.Stdout, o.json); err != nil {
		return err
	}
	if o.check {
		return errors.Join(failure, sheet.Check(titles))
	}
	return failure
}

// plainPython prefers the system's interpreter: others often come with packages
// that hook into their start, which makes a baseline that is easy to beat.
func plainPython() string {
	const system = "/usr/bin/python3"
	if _, err := os.Stat(system); err == nil {
		return system
	}
	return "python3"
}

// prepare finds or makes what the parts need.
func prepare(ctx context.Context, e *load.Env, names []string) (cleanUp func(), err error) {
	cleanUp = func() {}
	// Not a version manager's shim, which would make the baseline look slow.
	out, err := exec.CommandContext(ctx, e.Python, "-c", "import os, sys; print(os.path.realpath(sys.executable))").Output()
	if err != nil {
		return cleanUp, fmt.Errorf("cannot find the interpreter %q: %w", e.Python, err)
	}
	e.Python = strings.TrimSpace(string(out))
	for _, name := range names {
		if name == "memory" || name == "data" || name == "soak" {
			if e.Data, err = load.DataPython(ctx, e.Python); err != nil {
				return cleanUp, err
			}
			break
		}
	}
	if e.Binary != "" {
		return cleanUp, nil
	}
	dir, err := os.MkdirTemp("", "code-sandbox-load-")
	if err != nil {
		return cleanUp, err
	}
	cleanUp = func() { _ = os.RemoveAll(dir) }
	e.Binary = filepath.Join(dir, "code-sandbox")
	build := exec.CommandContext(ctx, "go", "build", "-o", e.Binary, "./cmd/code-sandbox")
	if out, err := build.CombinedOutput(); err != nil {
		return cleanUp, fmt.Errorf("cannot build code-sandbox: run this from the repository's root: %w: %s", err, out)
	}
	return cleanUp, nil
}
