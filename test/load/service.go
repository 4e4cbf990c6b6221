package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"time"
)

// Service is a real `code-sandbox local` process.
type Service struct {
	PID    int
	Addr   string // host:port of the API
	began  time.Time
	cmd    *exec.Cmd
	ended  chan error
	stderr *os.File
}

var readyLine = regexp.MustCompile(`ready on http://(\S+)`)

// StartService executes binary on free ports and waits until it says ready.
func StartService(ctx context.Context, binary string, args ...string) (*Service, error) {
	stderr, err := os.CreateTemp("", "code-sandbox-load-")
	if err != nil {
		return nil, fmt.Errorf("cannot keep what the service says: %w", err)
	}
	os.Remove(stderr.Name())
	cmd := exec.Command(binary, append([]string{"local", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the service: %w", err)
	}
	s := &Service{cmd: cmd, began: time.Now(), ended: make(chan error, 1), stderr: stderr}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the service: %w", err)
	}
	s.PID = cmd.Process.Pid
	said := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				said <- m[1]
			}
		}
		s.ended <- cmd.Wait()
	}()
	select {
	case s.Addr = <-said:
		return s, nil
	case err := <-s.ended:
		return nil, fmt.Errorf("the service ended before it was ready: %w: %s", err, s.said())
	case <-ctx.Done():
	case <-time.After(2 * time.Minute):
	}
	_ = cmd.Process.Kill()
	return nil, errors.New("the service was not ready in time: " + s.said())
}

// said is the end of what the service wrote to its standard error.
func (s *Service) said() string {
	end, err := s.stderr.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	b := make([]byte, min(end, 2000))
	n, _ := s.stderr.ReadAt(b, end-int64(len(b)))
	return string(b[:n])
}

// Stop ends the service the way an operator does, and says what it complained of.
func (s *Service) Stop() error {
	defer s.stderr.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-s.ended:
		if err != nil {
			return fmt.Errorf("the service did not stop cleanly: %w: %s", err, s.said())
		}
		return nil
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		return errors.New("the service did not stop within a minute of SIGTERM")
	}
}
