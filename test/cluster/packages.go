package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// debianPackages are what the bed needs of the machine, beside Go: the tools
// that lay networks and filter packets, what runc is linked with, and what
// images are made with.
var debianPackages = []string{
	"iproute2", "iptables", "nftables", "ipset", "conntrack", "procps", "util-linux",
	"gcc", "libc6-dev", "libseccomp-dev", "pkg-config", "python3", "python3-venv", "dpkg", "tar",
}

// installPackages installs those that are missing, and asks nobody when none is.
func (b *Bed) installPackages(ctx context.Context) error {
	if _, err := exec.LookPath("dpkg-query"); err != nil {
		return errors.New("cannot make a cluster here: its images are made of Debian packages, and this is no Debian")
	}
	missing := missingPackages(ctx, debianPackages...)
	if len(missing) == 0 {
		return nil
	}
	b.log.Info("installing packages", "packages", missing)
	return install(ctx, missing)
}

func install(ctx context.Context, packages []string) error {
	args := append([]string{"install", "-y", "-q", "--no-install-recommends"}, packages...)
	if err := apt(ctx, args...); err == nil {
		return nil
	}
	// The lists of packages may be old, or there may be none yet.
	if err := apt(ctx, "update", "-q"); err != nil {
		return err
	}
	return apt(ctx, args...)
}

func missingPackages(ctx context.Context, wanted ...string) []string {
	query := append([]string{"-W", "-f", "${Package} ${db:Status-Status}\n"}, wanted...)
	out, _ := exec.CommandContext(ctx, "dpkg-query", query...).Output() // fails when it does not know one
	there := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if name, status, _ := strings.Cut(strings.TrimSpace(line), " "); status == "installed" {
			there[name] = true
		}
	}
	var missing []string
	for _, name := range wanted {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// apt runs apt-get, and waits for another that holds its lock.
func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot run apt-get %q: %w: %s", args, err, lastLines([]byte(problems.String()), 5))
	}
	return nil
}
