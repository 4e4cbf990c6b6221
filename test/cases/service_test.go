package cases

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	readyBound = 60 * time.Second
	stopBound  = 40 * time.Second
)

// service is a "code-sandbox local" of ours, or one elsewhere of which only
// the url is known.
type service struct {
	url, admin string
	cmd        *exec.Cmd // nil elsewhere
	output     *output
	ended      chan error
}

// start runs the program under test on free ports and waits until it is ready.
func start(flags ...string) (*service, error) {
	api, admin, err := freePorts()
	if err != nil {
		return nil, err
	}
	s := &service{url: "http://" + api, admin: "http://" + admin, output: &output{}, ended: make(chan error, 1)}
	s.cmd = exec.Command(binary, append([]string{"local", "--listen", api, "--admin-listen", admin}, flags...)...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the service: %w", err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	for deadline := time.Now().Add(readyBound); !strings.Contains(s.output.String(), "is ready on"); time.Sleep(5 * time.Millisecond) {
		select {
		case err := <-s.ended:
			return nil, fmt.Errorf("the service ended before it was ready: %w: %s", err, s.output)
		default:
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("the service is not ready after %s: %s", readyBound, s.output), s.cmd.Process.Kill())
		}
	}
	return s, nil
}

// newService is a service of the test's own.
func newService(t *testing.T, flags ...string) *service {
	t.Helper()
	s, err := start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// stop ends the service as a supervisor would; a second call does nothing.
func (s *service) stop() error {
	if s.cmd == nil {
		return nil
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return s.wait()
}

func (s *service) wait() error {
	select {
	case err := <-s.ended:
		s.cmd = nil
		if err != nil {
			return fmt.Errorf("the service ended with %w: %s", err, s.output)
		}
		return nil
	case <-time.After(stopBound):
		return errors.Join(fmt.Errorf("the service did not stop in %s: %s", stopBound, s.output), s.cmd.Process.Kill())
	}
}

// here is the service's process id; zero when it runs elsewhere, where nothing
// but its answers can be looked at.
func (s *service) here() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

func freePorts() (api, admin string, err error) {
	a, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer a.Close()
	b, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer b.Close()
	return a.Addr().String(), b.Addr().String(), nil
}

// output collects what the service prints.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
