package local

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

//go:embed selftest.py
var selfTest string

// SelfTest starts one sandbox of template t and tries from inside it what must
// be refused. An error says what is not, or why no sandbox can be made here and
// what to do about it; nothing may be served then.
func (d *Driver) SelfTest(ctx context.Context, t pool.Template) error {
	s, err := d.Start(ctx, t)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: this machine is too busy, or its imports take too long", err)
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, d.advice())
	}
	res, err := s.Run(ctx, &wire.Request{Code: selfTest, TimeoutSeconds: 20, Args: []string{
		fmt.Sprint(t.Limits.DiskBytes), fmt.Sprint(t.Limits.DiskFiles),
	}}, nil)
	err = errors.Join(err, d.Destroy(context.WithoutCancel(ctx), s.ID()))
	if err != nil {
		return fmt.Errorf("cannot test the isolation: %w", err)
	}
	if res.Outcome != wire.OK {
		return fmt.Errorf("cannot test the isolation: %s %s", res.Reason, res.Stderr)
	}
	var wrong []string
	if err := json.Unmarshal([]byte(res.Stdout), &wrong); err != nil {
		return fmt.Errorf("cannot understand the test of the isolation: %w: %q", err, res.Stdout)
	}
	if len(wrong) > 0 {
		return errors.New("the isolation does not hold on this machine, so nothing is served: " + strings.Join(wrong, "; "))
	}
	return nil
}

// advice is what to do where no sandbox can be made.
func (d *Driver) advice() string {
	if !d.unprivileged {
		return "Sandboxes are made of Linux namespaces and mounts. Inside a container, these need the container to run with " +
			"CAP_SYS_ADMIN and without a seccomp or AppArmor profile that forbids mount."
	}
	return "Without root, sandboxes need unprivileged user namespaces. Allow them (as root: " +
		"sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000, and on Ubuntu " +
		"kernel.apparmor_restrict_unprivileged_userns=0), or run this program as root."
}
