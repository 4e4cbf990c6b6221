package escape

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

//go:embed outside.py
var outsideProgram string

const (
	outsideBytes = 64 << 20        // of what the simple runner reads, for this machine's sake
	outsideBound = 4 * time.Second // after which this test, and not the simple runner, ends a run
)

// outside is the control of what our runner stops: the target of a simple one,
// as it is easily written. It has no deadline of its own, keeps all output,
// takes what the program says for the truth, and reads whatever stands in the
// working directory. Programs run on this machine, in a folder of their own and
// without root's rights.
type outside struct {
	python string
}

func (o *outside) Run(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, outsideBound)
	defer cancel()
	dir, err := o.folder(req)
	if err != nil {
		return nil, err
	}
	defer exec.Command("sh", "-c", `chmod -R u+rwX "$0"; rm -rf "$0"`, dir).Run() // a folder for rubbish
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	res, output := &wire.Result{Outcome: wire.OK}, &output{}
	begun := time.Now()
	cmd := o.command(ctx, dir, req, output)
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return nil, err
	}
	err = readRecordPlainly(ctx, ours, res)
	cmd.Cancel() // it has ended, or ends now
	cmd.Wait()   // its record tells how it ended
	if err != nil {
		return nil, err
	}
	res.Stdout, res.StdoutBytes = output.String(), int64(output.Len())
	res.DurationMS = float64(time.Since(begun).Milliseconds())
	return res, readFiles(dir, res)
}

func (o *outside) folder(req *wire.Request) (string, error) {
	dir, err := os.MkdirTemp("", "escape-outside")
	if err != nil {
		return "", err
	}
	if !unprivileged() {
		err = os.Chown(dir, 65534, 65534)
	}
	return dir, errors.Join(err, os.WriteFile(filepath.Join(dir, "main.py"), []byte(req.Code), 0o644))
}

func (o *outside) command(ctx context.Context, dir string, req *wire.Request, output *output) *exec.Cmd {
	cmd := exec.CommandContext(ctx, o.python, "-c", outsideProgram)
	cmd.Dir, cmd.Stdout = dir, output
	for name, value := range req.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if !unprivileged() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// output keeps what is written, and fails where a real one would run out of memory.
type output struct{ bytes.Buffer }

func (o *output) Write(b []byte) (int, error) {
	if o.Len() > outsideBytes {
		return 0, errors.New("too much to keep")
	}
	return o.Buffer.Write(b)
}

// readRecordPlainly reads to the end of file, as one record, and believes it.
func readRecordPlainly(ctx context.Context, control *os.File, res *wire.Result) error {
	all, rights, err := readControl(ctx, control)
	switch {
	case err != nil:
		return fmt.Errorf("the runner waits for ever: %w", err)
	case rights > 0:
		return fmt.Errorf("the runner was given %d descriptors, and has no more of its own", rights)
	case len(all) < 4 || int(binary.BigEndian.Uint32(all)) != len(all)-4:
		return fmt.Errorf("the runner cannot say how the program ended: it has %d bytes, and they are no record", len(all))
	}
	var record struct {
		ExitCode int `json:"exit_code"`
		Errors   []struct{ Type string }
	}
	if err := json.Unmarshal(all[4:], &record); err != nil {
		return fmt.Errorf("the runner cannot say how the program ended: %w", err)
	}
	res.ExitCode = record.ExitCode
	for _, e := range record.Errors {
		res.Reason += e.Type
	}
	if record.ExitCode != 0 {
		res.Outcome = wire.Failed
	}
	return nil
}

// readControl reads to the end of file, with the descriptors that come along.
func readControl(ctx context.Context, control *os.File) (all []byte, rights int, err error) {
	conn, err := net.FileConn(control)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	conn.SetDeadline(end)
	buf, oob := make([]byte, 1<<20), make([]byte, 8<<10)
	for len(all) < outsideBytes {
		n, held, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(buf, oob)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, err
		}
		all = append(all, buf[:n]...)
		messages, _ := unix.ParseSocketControlMessage(oob[:held])
		for _, m := range messages {
			fds, _ := unix.ParseUnixRights(&m)
			rights += len(fds)
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}
	return all, rights, nil
}

// readFiles reads whatever the working directory holds, links and all.
func readFiles(dir string, res *wire.Result) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "main.py" {
			return err
		}
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // or a pipe would hold up this test
		if err != nil {
			return nil // left out, as what cannot be read
		}
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.IsDir() {
			return err
		}
		content := make([]byte, 4096)
		n, _ := f.Read(content)
		name, err := filepath.Rel(dir, path)
		res.Files = append(res.Files, wire.File{Path: name, Content: string(content[:n])})
		return err
	})
}

// What the runner stops gets through outside: so these rows can fail, too.
func TestHostileProgramsOutside(t *testing.T) {
	t.Parallel()
	for _, r := range table() {
		if !r.outside || r.user && !unprivileged() {
			continue // the latter is tried by TestHostileProgramsUnprivileged
		}
		t.Run(r.name, func(t *testing.T) {
			if wrong := r.try(t, &outside{python: "/usr/bin/python3"}); wrong == "" {
				t.Errorf("it is stopped outside as well: the row does not test %s", r.layer)
			} else {
				t.Logf("outside: %.300s", wrong)
			}
		})
	}
}
