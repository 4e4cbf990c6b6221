package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// downTimeout bounds the end of the node, which takes half a second.
const downTimeout = 30 * time.Second

// down ends the node's first process: with it the kernel ends every process
// of its pid namespace, and with the last of them its mounts and interfaces.
// It works as well when the node, or a part of it, was killed before.
func (b *Bed) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	if s, err := b.State(); err == nil {
		if b.ended, err = ticks(); err == nil {
			err = kill(ctx, s)
		}
		if err != nil {
			return err
		}
	}
	if err := b.removeCgroups(ctx); err != nil {
		return err
	}
	return b.removeWork()
}

// kill ends the node if it is the one that was recorded.
func kill(ctx context.Context, s State) error {
	for s.alive() {
		if err := syscall.Kill(s.Pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("cannot end the node: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot end the node, process %d: %w", s.Pid, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// removeWork removes the work folder, but never through a mount.
func (b *Bed) removeWork() error {
	mounts, err := mountsBelow(b.work)
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("cannot remove %q: there are mounts in it: %q", b.work, mounts)
	}
	if err := os.RemoveAll(b.work); err != nil {
		return fmt.Errorf("cannot remove the work folder: %w", err)
	}
	return nil
}

func mountsBelow(dir string) ([]string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			found = append(found, fields[4])
		}
	}
	return found, nil
}

// tailLogs is an error that tells what the node's daemons said last.
func (b *Bed) tailLogs() error {
	files, err := filepath.Glob(filepath.Join(b.work, "log", "*.log"))
	if err != nil || len(files) == 0 {
		return err
	}
	var text strings.Builder
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		if len(raw) > 0 {
			fmt.Fprintf(&text, "== %s\n%s\n", filepath.Base(file), strings.Join(lines[max(0, len(lines)-8):], "\n"))
		}
	}
	return errors.New(text.String())
}
