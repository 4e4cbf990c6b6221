package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"
)

// client is one keep-alive connection with a blocking socket: it adds a write
// and a read to a request and no scheduling of its own, so that what it
// measures is the service. It is used by one goroutine.
type client struct {
	fd   int
	addr string
	buf  []byte
	busy time.Time // when the last request was really sent
}

func dial(addr string) (*client, error) {
	tcp, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot understand the service's address: %w", err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket: %w", err)
	}
	to := &syscall.SockaddrInet4{Port: tcp.Port, Addr: [4]byte(tcp.IP.To4())}
	if err := syscall.Connect(fd, to); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("cannot connect to the service: %w", err)
	}
	timeout := syscall.NsecToTimeval(int64(2 * time.Minute))
	err = errors.Join(
		syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &timeout),
	)
	if err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("cannot set up a socket: %w", err)
	}
	return &client{fd: fd, addr: addr, buf: make([]byte, 0, 64<<10)}, nil
}

func (c *client) close() { _ = syscall.Close(c.fd) }

// request is a POST of a program, ready to be written.
func request(addr, code string) []byte {
	return fmt.Appendf(nil, "POST /run_python HTTP/1.1\r\nHost: %s\r\nContent-Type: text/x-python\r\nContent-Length: %d\r\n\r\n%s",
		addr, len(code), code)
}

// do sends a request and returns the body of its answer, which is valid until
// the next call. An answer other than 200 is an error.
func (c *client) do(request []byte) ([]byte, error) {
	c.busy = time.Now()
	for rest := request; len(rest) > 0; {
		n, err := syscall.Write(c.fd, rest)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot send a request: %w", err)
		}
		rest = rest[n:]
	}
	c.buf = c.buf[:0]
	for {
		if body, whole, err := parseAnswer(c.buf); whole || err != nil {
			return body, err
		}
		if len(c.buf) == cap(c.buf) {
			c.buf = append(make([]byte, 0, 2*cap(c.buf)), c.buf...)
		}
		n, err := syscall.Read(c.fd, c.buf[len(c.buf):cap(c.buf)])
		if err == syscall.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.EOF
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read an answer: %w", err)
		}
		c.buf = c.buf[:len(c.buf)+n]
	}
}

// parseAnswer finds the body in an answer with a Content-Length; whole is false
// while there is more to come.
func parseAnswer(b []byte) (body []byte, whole bool, err error) {
	head, rest, ok := bytes.Cut(b, []byte("\r\n\r\n"))
	if !ok {
		return nil, false, nil
	}
	_, after, ok := bytes.Cut(head, []byte("Content-Length: "))
	if !ok {
		return nil, false, fmt.Errorf("an answer has no length: %q", head)
	}
	digits, _, _ := bytes.Cut(after, []byte("\r\n"))
	size, err := strconv.Atoi(string(digits))
	if err != nil {
		return nil, false, fmt.Errorf("an answer's length is %q", digits)
	}
	if len(rest) < size {
		return nil, false, nil
	}
	if !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) {
		return nil, true, fmt.Errorf("refused: %s", rest)
	}
	return rest, true, nil
}

// answer is what is looked at of a run's answer.
type answer struct {
	SandboxID  string  `json:"sandbox_id"`
	Stdout     string  `json:"stdout"`
	Stderr     string  `json:"stderr"`
	Outcome    string  `json:"outcome"`
	Reason     string  `json:"reason"`
	Isolation  string  `json:"isolation"`
	Warm       bool    `json:"warm"`
	DurationMS float64 `json:"duration_ms"`
	Timing     struct {
		QueueMS float64 `json:"queue_ms"`
		ClaimMS float64 `json:"claim_ms"`
		RunMS   float64 `json:"run_ms"`
	} `json:"timing"`
}

// decode is an answer that must be a program's good end with the given output.
func decode(body []byte, stdout string) (*answer, error) {
	a := new(answer)
	if err := json.Unmarshal(body, a); err != nil {
		return nil, fmt.Errorf("cannot understand an answer: %w", err)
	}
	if a.Outcome != "ok" || a.Stdout != stdout {
		return a, fmt.Errorf("a run ended with outcome %q, stdout %q: %s %s", a.Outcome, a.Stdout, a.Reason, a.Stderr)
	}
	if a.Isolation != "namespaces" {
		return a, fmt.Errorf("a run's isolation was %q", a.Isolation)
	}
	return a, nil
}
