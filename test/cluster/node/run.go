package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// firstListener is the descriptor of the first listener handed over, after
// standard input, output and error.
const firstListener = 3

// Run lays the node as planned and keeps it. It returns only when it cannot:
// the node ends when it is killed.
func Run(ctx context.Context, p Plan, log hclog.Logger) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("cannot be a node: this is not the first process of a pid namespace")
	}
	if err := unix.Sethostname([]byte(p.Hostname)); err != nil {
		return fmt.Errorf("cannot name the node: %w", err)
	}
	if err := layMounts(p); err != nil {
		return err
	}
	if err := raiseLimits(); err != nil {
		return err
	}
	_ = os.Setenv("PATH", Bin+":/usr/sbin:/usr/bin:/sbin:/bin")
	if err := os.Chdir(Work); err != nil {
		return fmt.Errorf("cannot enter %q: %w", Work, err)
	}
	for _, args := range p.Network {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("cannot run %q: %w: %s", args, err, out)
		}
	}
	for i, target := range p.Relays {
		if err := startRelay(ctx, uintptr(firstListener+i), target, p.Resolver, log.Named("relay")); err != nil {
			return err
		}
	}
	log.Info("network is laid")
	return newKeeper(p, log.Named("keeper")).run(ctx)
}

// raiseLimits allows as many open files as the machine allows at all.
func raiseLimits() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("cannot raise the limit of open files: %w", err)
	}
	return nil
}
