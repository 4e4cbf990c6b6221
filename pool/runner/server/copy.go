package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const (
	// maxCopy bounds what a copy is made of: a boot record, mostly.
	maxCopy = 8 << 20
	// maxCallDepth bounds the nesting of a boot record and of a call.
	maxCallDepth = 300
	// readable is R_OK of access(2).
	readable = 4
	// hookName is the folder beside the runner that has the hook's files.
	hookName = "hook"
)

// errNotPrepared is the end of a runner whose copy cannot be made. Why, its caller
// is told, and no log.
var errNotPrepared = errors.New("the program's copy cannot be made; whoever asked for it was told why")

// errNotCovered is the end of a runner whose pod shows what it must not.
var errNotCovered = errors.New("the image has files that its copies must not see; a pod that covers them takes this one's place")

// copying makes the copy ready, once, for whoever was shown that it is closed.
func (s *Server) copying(w http.ResponseWriter, r *http.Request) {
	var program wire.Copy
	if err := decode(w, r, maxCopy, maxCallDepth, &program); err != nil {
		refuse(w, http.StatusBadRequest, api.Errorf(api.BadRequest, "cannot read what the copy is made of: %w", err))
		return
	}
	if s.pool.Load() != any(connectionOf(r)) || !s.prepared.CompareAndSwap(false, true) {
		refuse(w, http.StatusConflict, api.Errorf(api.Conflict, "a copy is made ready once, by whom it was shown that the network is closed"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyBound)
	defer cancel()
	defer close(s.ready)
	covers, err := mustCover(&program)
	if err == nil && covers.Len() > 0 {
		s.failure = errNotCovered
		tell(w, covers)
		return
	}
	if err == nil {
		err = s.listenProxy(&program)
	}
	var interpreter *Interpreter
	var nonce string
	if err == nil {
		interpreter, nonce, err = startCopy(ctx, s.config, &program)
	}
	if err != nil {
		s.failure = errNotPrepared
		refuse(w, err.Status(), err)
		return
	}
	s.interpreter, s.nonce = interpreter, nonce
	tell(w, wire.Covers{})
}

func tell(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // a caller who is gone needs none
}

// mustCover is what of a program's image its pod has to cover, and does not.
func mustCover(program *wire.Copy) (wire.Covers, *api.Error) {
	if err := inImage(program); err != nil {
		return wire.Covers{}, err
	}
	return findHidden(program)
}

// startCopy starts the agent's interpreter and has it import the program.
func startCopy(ctx context.Context, c wire.RunnerConfig, program *wire.Copy) (*Interpreter, string, *api.Error) {
	program, err := withImage(program, c.Image)
	if err != nil {
		return nil, "", api.Errorf(api.BadRequest, "cannot read the boot record: %w", err)
	}
	how, err := copyCommand(c, program)
	if err != nil {
		return nil, "", api.Errorf(api.Internal, "%w", err)
	}
	work, err := os.Open(c.Temp)
	if err != nil {
		return nil, "", api.Errorf(api.Internal, "cannot open the sandbox's folder: %w", err)
	}
	e, err := newEnds()
	if err == nil {
		err = e.twoEnds()
	}
	if err != nil {
		return nil, "", api.Errorf(api.Internal, "%w", err)
	}
	i, err := e.start(c, work, how)
	if _, isPath := errors.AsType[*fs.PathError](err); isPath {
		return nil, "", api.Errorf(api.Unsandboxable, "the image's interpreter %q does not start in a copy: %w", program.Python, err).Because("interpreter_missing")
	}
	if err != nil {
		return nil, "", api.Errorf(api.Internal, "%w", err)
	}
	nonce, failure := imported(ctx, c, e, i, program)
	return i, nonce, failure
}

// imported has a started interpreter import the program. Nonce is what all frames
// of the copy carry.
func imported(ctx context.Context, c wire.RunnerConfig, e *ends, i *Interpreter, program *wire.Copy) (nonce string, failure *api.Error) {
	nonce = rand.Text()
	err := runner.Prepare(ctx, e.control, e.out, e.err, nonce, program)
	if err != nil && i.Process.OOMKills() {
		err = api.Errorf(api.Unsandboxable, "the import of the program used more than the memory limit of a sandbox, %d MiB; have it raised",
			c.Limits.MemoryBytes>>20).Because("import_memory")
	}
	if err != nil {
		return "", api.From(err)
	}
	return nonce, nil
}

// inImage refuses a program that is not in the image: a copy has no volume of the
// agent's.
func inImage(c *wire.Copy) *api.Error {
	_, main, err := c.Folders()
	if err != nil {
		return api.Errorf(api.BadRequest, "%w", err)
	}
	for _, needed := range []struct{ what, path, reason string }{
		{"interpreter", c.Python, "interpreter_missing"},
		{"main program", main, "code_on_volume"},
	} {
		if needed.path == "" && needed.what != "interpreter" {
			continue
		}
		if !filepath.IsAbs(needed.path) {
			return api.Errorf(api.BadRequest, "the path of the agent's %s is %q, which is not absolute", needed.what, needed.path)
		}
		switch err := syscall.Access(needed.path, readable); {
		case err == nil:
		case errors.Is(err, fs.ErrPermission):
			return api.Errorf(api.Unsandboxable, "the agent's %s %q cannot be read by the user %d, whom its copies run as; "+
				"let others read it in the image (chmod -R o+rX), or set runAsUser in the agent's pod", needed.what, needed.path, os.Getuid()).Because("folder_private")
		default:
			return api.Errorf(api.Unsandboxable, "the agent's image has no %s at %q: what comes by a volume is not in a copy; have it in the image",
				needed.what, needed.path).Because(needed.reason)
		}
	}
	return nil
}

// copyCommand is the hook's own program that makes a copy.
func copyCommand(c wire.RunnerConfig, program *wire.Copy) (command, error) {
	own, err := os.Executable()
	if err != nil {
		return command{}, fmt.Errorf("cannot find the hook's files: %w", err)
	}
	argv := append([]string{program.Python}, program.Flags...)
	argv = append(argv, filepath.Join(filepath.Dir(own), hookName, "runcopy.py"), "--request-fd", "3", "--result-fd", "4")
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "USER": "sandbox"}
	maps.Copy(env, program.Env)
	env["HOME"], env["TMPDIR"] = c.Temp, c.Temp
	maps.Copy(env, program.Egress.Environment(c.ProxyPort))
	how := command{argv: argv, dir: "/"}
	for name, value := range env {
		how.env = append(how.env, name+"="+value)
	}
	return how, nil
}

// twoEnds gives the control socket a second descriptor, in the place of the one
// that other interpreters get their program by: a copy closes one for reading and
// keeps one for writing.
func (e *ends) twoEnds() error {
	fd, err := syscall.Dup(int(e.theirs[3].Fd()))
	if err != nil {
		return fmt.Errorf("cannot use the control socket: %w", err)
	}
	syscall.CloseOnExec(fd)
	err = errors.Join(e.program.Close(), e.theirs[4].Close())
	e.theirs[4] = os.NewFile(uintptr(fd), "control")
	return err
}
