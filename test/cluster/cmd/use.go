package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

func status(bed *cluster.Bed) error {
	s, err := bed.State()
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(raw))
	return nil
}

// inside runs a command against the running cluster, or in it.
func inside(ctx context.Context, bed *cluster.Bed, name string, args []string) error {
	s, err := bed.State()
	if err != nil {
		return err
	}
	switch name {
	case "kubectl":
		args = append([]string{filepath.Join(s.Bin, "kubectl")}, args...)
	case "exec":
		args = s.Enter(false, args...)
	case "ctr":
		args = s.Enter(true, append([]string{"/run/bed/bin/ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io"}, args...)...)
	}
	return runWith(ctx, s, args)
}

func runWith(ctx context.Context, s cluster.State, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), s.Env()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	return cmd.Run()
}

// downTimeout bounds the end of the cluster also after an interrupt.
const downTimeout = time.Minute

// test leaves the machine as it was, however the command ends.
func test(ctx context.Context, bed *cluster.Bed, args []string) error {
	before, err := cluster.LookAround()
	if err != nil {
		return err
	}
	began := time.Now()
	s, err := bed.Up(ctx)
	if err != nil {
		return err
	}
	up := time.Now()
	failed := runWith(ctx, s, args)
	tested := time.Now()
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTimeout)
	defer cancel()
	err = errors.Join(failed, bed.Down(clean))
	down := time.Now()
	left, lookErr := bed.Leftovers(s, before)
	for _, what := range left {
		err = errors.Join(err, errors.New("left behind: "+what))
	}
	fmt.Printf("cluster: up %.1fs, test %.1fs, down %.1fs, %d things left behind\n",
		up.Sub(began).Seconds(), tested.Sub(up).Seconds(), down.Sub(tested).Seconds(), len(left))
	return errors.Join(err, lookErr)
}
