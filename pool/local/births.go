package local

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// exit is how the interpreter of a sandbox ended; known is false when the
// zygote, its parent, ended first.
type exit struct {
	status syscall.WaitStatus
	known  bool
}

// birth is a spawn that the zygote has not answered yet.
type birth struct {
	exited func(exit) // called once, when the interpreter has ended; must not block
	answer chan spawned
}

type spawned struct {
	initFD, mainFD int
	err            error
}

// spawn asks for a new sandbox process with the given descriptors, and returns
// pidfds of its init and of its interpreter, whose exit is told to exited.
func (z *zygote) spawn(ctx context.Context, fds []int, exited func(exit)) (initFD, mainFD int, err error) {
	b := &birth{exited: exited, answer: make(chan spawned, 1)}
	id, err := z.register(b)
	if err != nil {
		return -1, -1, err
	}
	if err := z.send(id, fds); err != nil {
		z.forget(id)
		return -1, -1, fmt.Errorf("cannot ask the zygote for a sandbox: %w", err)
	}
	select {
	case s := <-b.answer:
		return s.initFD, s.mainFD, s.err
	case <-ctx.Done():
		b.abandon()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			z.fallSilent()
			return -1, -1, fmt.Errorf("the zygote does not answer: %w", ctx.Err())
		}
		return -1, -1, ctx.Err()
	}
}

func (z *zygote) register(b *birth) (uint64, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.gone != nil {
		return 0, z.gone
	}
	id := z.ids.Add(1)
	z.spawns++
	z.pending[id] = b
	return id, nil
}

// forget drops a birth that was never asked for: a zygote that waits for one is
// not idle, and would never be closed.
func (z *zygote) forget(id uint64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.pending, id)
}

func (z *zygote) send(id uint64, fds []int) error {
	raw, err := z.channel.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		sendErr = unix.Sendmsg(int(fd), binary.LittleEndian.AppendUint64(nil, id), unix.UnixRights(fds...), nil, 0)
		return sendErr != unix.EAGAIN
	})
	return errors.Join(err, sendErr)
}

// abandon kills a sandbox that nobody waits for any more, when it comes.
func (b *birth) abandon() {
	go func() {
		s := <-b.answer
		if s.err == nil {
			unix.PidfdSendSignal(s.initFD, unix.SIGKILL, nil, 0)
			unix.PidfdSendSignal(s.mainFD, unix.SIGKILL, nil, 0)
			unix.Close(s.initFD)
			unix.Close(s.mainFD)
		}
	}()
}

// read dispatches the zygote's messages until it ends.
func (z *zygote) read() {
	raw, err := z.channel.SyscallConn()
	if err != nil {
		return
	}
	buf, oob := make([]byte, 1024), make([]byte, unix.CmsgSpace(2*4))
	for {
		var n, oobn int
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, readErr = unix.Recvmsg(int(fd), buf, oob, unix.MSG_CMSG_CLOEXEC)
			return readErr != unix.EAGAIN && readErr != unix.EINTR
		})
		if err != nil || readErr != nil || n < 9 {
			return
		}
		z.dispatch(buf[0], binary.LittleEndian.Uint64(buf[1:9]), buf[9:n], oob[:oobn])
	}
}

func (z *zygote) dispatch(kind byte, id uint64, body, oob []byte) {
	z.mu.Lock()
	defer z.mu.Unlock()
	switch kind {
	case 'P':
		b := z.pending[id]
		delete(z.pending, id)
		fds, err := parseRights(oob)
		if err != nil || len(fds) != 2 || b == nil {
			panic(fmt.Sprintf("BUG: the zygote answered spawn %d with %d descriptors: %v", id, len(fds), err))
		}
		z.running[id] = b.exited
		b.answer <- spawned{initFD: fds[0], mainFD: fds[1]}
	case 'X':
		if b := z.pending[id]; b != nil {
			delete(z.pending, id)
			b.answer <- spawned{err: fmt.Errorf("the zygote cannot make a sandbox: %s", body)}
		}
	case 'E':
		if exited := z.running[id]; exited != nil {
			delete(z.running, id)
			exited(exit{syscall.WaitStatus(binary.LittleEndian.Uint32(body)), true})
		}
	}
}

func parseRights(oob []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("no descriptors came: %w", err)
	}
	return unix.ParseUnixRights(&messages[0])
}
