// Command cmd measures the product on the running test cluster and prints
// tables; with -check it fails where the project's promises are not kept.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/code-sandbox/code-sandbox/test/load/cluster"
)

type options struct {
	env               cluster.Env
	work, chart, json string
	parts             string
	check             bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	var o options
	flag.StringVar(&o.work, "work", os.Getenv("CODE_SANDBOX_BED_WORK"), "the running cluster's `folder` (CODE_SANDBOX_BED_WORK)")
	flag.StringVar(&o.chart, "chart", "helm/code-sandbox", "`folder` of the chart")
	flag.StringVar(&o.parts, "parts", strings.Join(cluster.Names(), ","), "`names` of what to measure")
	flag.IntVar(&o.env.Rounds, "rounds", 3, "repeat each measurement and take the median")
	flag.IntVar(&o.env.Samples, "samples", 60, "warm runs in one round")
	flag.DurationVar(&o.env.Gap, "gap", 4*time.Second, "time between warm runs: enough for the last one's pod to be replaced")
	flag.IntVar(&o.env.Cold, "cold", 5, "cold starts, and plain pods beside them, in one round")
	flag.DurationVar(&o.env.Length, "length", 20*time.Second, "length of a load in one round")
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
	if o.work == "" {
		return errors.New("-work must name the folder of a running cluster: see go run ./test/cluster/cmd status")
	}
	o.env.Logf = func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	p, err := cluster.Open(ctx, o.work, o.chart, o.env.Logf)
	if err != nil {
		return err
	}
	sheet, failure := cluster.Measure(ctx, &o.env, p, strings.Split(o.parts, ","), o.check)
	if err := sheet.Report(os.Stdout, o.json); err != nil {
		return err
	}
	return failure
}
