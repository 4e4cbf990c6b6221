package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ends are the two ends of a sandbox's descriptors.
type ends struct {
	control        *net.UnixConn
	stdout, stderr *os.File
	theirs         [3]int // control, stdout, stderr
}

func newEnds() (*ends, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket for a sandbox: %w", err)
	}
	var out, errs [2]int
	if err := unix.Pipe2(out[:], unix.O_CLOEXEC); err != nil {
		closeFDs(pair[:]...)
		return nil, fmt.Errorf("cannot make a pipe for a sandbox: %w", err)
	}
	if err := unix.Pipe2(errs[:], unix.O_CLOEXEC); err != nil {
		closeFDs(append(pair[:], out[:]...)...)
		return nil, fmt.Errorf("cannot make a pipe for a sandbox: %w", err)
	}
	unix.SetNonblock(out[0], true)
	unix.SetNonblock(errs[0], true)
	ours := os.NewFile(uintptr(pair[0]), "control")
	conn, err := net.FileConn(ours) // duplicates
	ours.Close()
	if err != nil {
		closeFDs(pair[1], out[0], out[1], errs[0], errs[1])
		return nil, fmt.Errorf("cannot use a sandbox's socket: %w", err)
	}
	return &ends{
		control: conn.(*net.UnixConn),
		stdout:  os.NewFile(uintptr(out[0]), "stdout"),
		stderr:  os.NewFile(uintptr(errs[0]), "stderr"),
		theirs:  [3]int{pair[1], out[1], errs[1]},
	}, nil
}

func (e *ends) closeTheirs() { closeFDs(e.theirs[:]...) }

func (e *ends) closeOurs() {
	e.control.Close()
	e.stdout.Close()
	e.stderr.Close()
}

func (e *ends) closeAll() {
	e.closeTheirs()
	e.closeOurs()
}

func closeFDs(fds ...int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// await takes over what the sandbox hands out.
func (s *sandbox) await(ctx context.Context) error {
	stop := s.bounded(ctx)
	defer stop()
	buf, oob := make([]byte, 600), make([]byte, unix.CmsgSpace(3*4))
	n, oobn, _, _, err := s.control.ReadMsgUnix(buf, oob)
	if err != nil || n == 0 || buf[0] != 'F' {
		return notReady(buf[:max(n, 0)], err) // n is -1 when the socket was closed meanwhile
	}
	return s.takeOver(oob[:oobn])
}

// ready waits for the sandbox's word that it is ready: at once when it is a
// fork of a zygote, after the import of the program when it is a copy.
func (s *sandbox) ready(ctx context.Context) error {
	stop := s.bounded(ctx)
	defer stop()
	if s.copy != nil {
		return s.prepare(ctx)
	}
	buf := make([]byte, 600)
	if n, err := s.control.Read(buf); err != nil || n == 0 || buf[0] != 'R' {
		return notReady(buf[:max(n, 0)], err)
	}
	return nil
}

// bounded ends reads from the control socket with ctx, until stop.
func (s *sandbox) bounded(ctx context.Context) (stop func()) {
	if deadline, ok := ctx.Deadline(); ok {
		s.control.SetReadDeadline(deadline)
	}
	release := context.AfterFunc(ctx, func() { s.control.SetReadDeadline(time.Unix(1, 0)) })
	return func() {
		release()
		s.control.SetReadDeadline(time.Time{})
	}
}

func notReady(said []byte, err error) error {
	if len(said) > 0 && said[0] == 'X' {
		return fmt.Errorf("the sandbox cannot be closed in: %s", said[1:])
	}
	if e := unimportable(said); e != nil {
		return e
	}
	return fmt.Errorf("the sandbox did not get ready: %w", err)
}

func (s *sandbox) takeOver(oob []byte) error {
	fds, err := parseRights(oob)
	if err != nil {
		return err
	}
	s.workDir = os.NewFile(uintptr(fds[0]), "work")
	sockets := fds[1:] // for lookups, where there is a network; and for egress
	defer closeFDs(sockets...)
	if len(sockets) > 0 {
		if s.dns, err = ofSocket(sockets[0], net.FilePacketConn); err != nil {
			return fmt.Errorf("cannot use a sandbox's DNS socket: %w", err)
		}
	}
	if s.copy == nil || s.copy.Egress == nil {
		return nil
	}
	if len(sockets) < 2 {
		return errors.New("the sandbox gave no socket for egress")
	}
	if s.egress, err = ofSocket(sockets[1], net.FileListener); err != nil {
		return fmt.Errorf("cannot use a sandbox's egress socket: %w", err)
	}
	return nil
}

// ofSocket makes one of package net's of a duplicate of a socket.
func ofSocket[T any](fd int, of func(*os.File) (T, error)) (T, error) {
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		var none T
		return none, err
	}
	f := os.NewFile(uintptr(duplicate), "socket")
	defer f.Close()
	return of(f)
}
