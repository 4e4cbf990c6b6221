package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/code-sandbox/code-sandbox/test/cluster/node"
)

// start makes the work folder and the node, and waits until it is ready.
func (b *Bed) start(ctx context.Context, bin string, images map[string]string) (State, error) {
	began := time.Now()
	for _, dir := range []string{"kubelet", "log/pods", "log/containers", "registry", "containerd", "etcd"} {
		if err := os.MkdirAll(filepath.Join(b.work, dir), 0o755); err != nil {
			return State{}, fmt.Errorf("cannot make the work folder: %w", err)
		}
	}
	if err := os.Chmod(filepath.Join(b.work, "etcd"), 0o700); err != nil {
		return State{}, err
	}
	listeners, addresses, err := listen(3)
	if err != nil {
		return State{}, err
	}
	defer closeAll(listeners)
	s := State{
		Name: b.name, Work: b.work, Bin: bin, Kubeconfig: filepath.Join(b.work, "kubeconfig"),
		API: addresses[0], Registry: addresses[1], Socks: addresses[2], Images: references(images),
	}
	if err := b.writeKeys(s.API); err != nil {
		return State{}, err
	}
	if err := b.writeConfig(images); err != nil {
		return State{}, err
	}
	if err := b.makeCgroups(); err != nil {
		return State{}, err
	}
	if err := b.startNode(&s, listeners); err != nil {
		return State{}, err
	}
	b.log.Info("node started", "pid", s.Pid)
	if err := b.waitReady(ctx, s); err != nil {
		return State{}, err
	}
	b.log.Info("cluster is ready", "after", time.Since(began).Round(time.Millisecond))
	return s, nil
}

// startNode starts the node's first process. It does nothing before it has
// its plan; by then it is recorded, so that it can be ended, and in the
// cluster's cgroups, so that everything it starts is as well. If this process
// dies before, the node reads the end of the plan and ends.
func (b *Bed) startNode(s *State, listeners []*os.File) error {
	logFile, err := os.OpenFile(filepath.Join(b.work, "log", "node.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("cannot open a log: %w", err)
	}
	defer logFile.Close()
	cmd := exec.Command(filepath.Join(s.Bin, "bed"), "node")
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=/root"}
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = logFile, logFile, listeners
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	plan, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("cannot start the node: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the node: %w", err)
	}
	// Nobody waits for the node while this process lives; a zombie would look
	// like a process that cannot be ended.
	go func() { _ = cmd.Wait() }()
	s.Pid = cmd.Process.Pid
	if s.Started, err = startTime(s.Pid); err != nil {
		return err
	}
	if s.Namespaces, err = namespacesOf(s.Pid); err != nil {
		return err
	}
	if err := b.writeState(*s); err != nil {
		return err
	}
	if err := b.joinCgroups(s.Pid); err != nil {
		return err
	}
	if err := json.NewEncoder(plan).Encode(b.nodePlan(s.Bin, b.storePath())); err != nil {
		return fmt.Errorf("cannot tell the node its plan: %w", err)
	}
	return plan.Close()
}

// listen opens listeners on free ports of the loopback interface. They are
// opened here, in the machine's network namespace, for the node to accept on.
func listen(n int) ([]*os.File, []string, error) {
	var files []*os.File
	var addresses []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			closeAll(files)
			return nil, nil, fmt.Errorf("cannot listen for the cluster: %w", err)
		}
		f, err := l.(*net.TCPListener).File()
		closed := l.Close()
		if err == nil {
			err = closed
		}
		if err != nil {
			closeAll(files)
			return nil, nil, fmt.Errorf("cannot hand a listener over: %w", err)
		}
		files = append(files, f)
		addresses = append(addresses, l.Addr().String())
	}
	return files, addresses, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Enter is the command that runs args in the node's network, and with mounts
// in its file system and process list as well.
func (s State) Enter(mounts bool, args ...string) []string {
	enter := []string{"nsenter", fmt.Sprintf("--target=%d", s.Pid), "--net"}
	if mounts {
		// Entering a mount namespace changes the folder.
		enter = append(enter, "--mount", "--pid", "--wdns="+node.Work)
	}
	return append(append(enter, "--"), args...)
}
