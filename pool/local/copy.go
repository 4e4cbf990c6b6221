package local

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/runner"
	"github.com/code-sandbox/code-sandbox/pool/runner/hidden"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// copyBroods is how many programs' zygotes are kept though nothing lives in them.
const copyBroods = 16

// copyExecution is the hook's own program that makes a copy, and how it is called:
// the control socket is there under two descriptors.
func copyExecution(c *wire.Copy, hook string) *execution {
	argv := append([]string{c.Python}, c.Flags...)
	argv = append(argv, filepath.Join(hook, "runcopy.py"), "--request-fd", "3", "--result-fd", "4")
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "USER": "sandbox"}
	maps.Copy(env, c.Env)
	env["HOME"], env["TMPDIR"] = "/tmp", "/tmp"
	maps.Copy(env, c.Egress.Environment(wire.ProxyPort))
	return &execution{Argv: argv, Env: env, TwoEnds: true}
}

// copyConfig is what the zygote of a copy is told. It is made anew for each
// start: files that came since the last one are masked as well.
func (d *Driver) copyConfig(t pool.Template) (zygoteConfig, error) {
	if d.opts.Hook == "" {
		return zygoteConfig{}, api.Errorf(api.Unsandboxable, "this service was started without the tool-call hook").Because("no_hook")
	}
	if t.Copy.Egress != nil && d.opts.Egress == nil {
		return zygoteConfig{}, api.Errorf(api.Unsandboxable, "this service was started without an egress proxy, which the tool is granted").Because("no_egress")
	}
	v, err := lookAt(t.Copy, d.opts.Hook, homes(), !d.unprivileged)
	if err != nil {
		return zygoteConfig{}, err
	}
	c := d.config(pool.Template{Limits: t.Limits, DNS: t.DNS})
	c.Fresh = false
	c.Paths, c.Masks, c.Links = v.paths, v.masks, v.links
	c.Folders, c.Never = v.folders, hidden.Future
	c.Exec = copyExecution(t.Copy, d.opts.Hook)
	if t.Copy.Egress != nil {
		c.EgressPort = wire.ProxyPort
	}
	return c, nil
}

// copyBrood returns the zygote of a program: copies for all of its functions
// are forks of one, since what tells them apart comes later.
func (d *Driver) copyBrood(t pool.Template) (*brood, error) {
	config, err := d.copyConfig(t)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	key := "copy " + hex.EncodeToString(sum[:])
	d.zygotesMu.Lock()
	defer d.zygotesMu.Unlock()
	if d.zygotes == nil {
		return nil, errClosed
	}
	brood := d.zygotes[key]
	if brood == nil {
		brood = newBrood(1, func(ctx context.Context) (*zygote, error) { return d.startCopyZygote(ctx, config) })
		d.zygotes[key] = brood
	}
	d.notUsed(key)
	d.copies = append(d.copies, key)
	d.forget()
	return brood, nil
}

// startCopyZygote starts the zygote of a program, and says what its kernel or
// the place of a folder takes away.
func (d *Driver) startCopyZygote(ctx context.Context, config zygoteConfig) (*zygote, error) {
	z, err := startZygote(ctx, d.opts.Python, config, &d.births)
	if err == nil && len(z.live) > 0 {
		d.opts.Logger.Warn("folders of a program are shown without an overlay: a credential file that is replaced is not hidden from copies that are warm or run, and sockets and named pipes made meanwhile are within their reach", "folders", strings.Join(z.live, ", "))
	}
	return z, err
}

// forget closes the zygotes of programs that were not used for longest, beyond
// copyBroods, where nothing lives in them. The caller holds the lock.
func (d *Driver) forget() {
	for _, key := range slices.Clone(d.copies[:len(d.copies)-1]) {
		if len(d.copies) <= copyBroods {
			return
		}
		if b := d.zygotes[key]; b.idle() {
			delete(d.zygotes, key)
			d.notUsed(key)
			d.background.Go(b.close)
		}
	}
}

func (d *Driver) notUsed(key string) {
	d.copies = slices.DeleteFunc(d.copies, func(k string) bool { return k == key })
}

// prepare imports the program.
func (s *sandbox) prepare(ctx context.Context) error {
	var err error
	s.nonce = rand.Text()
	if s.oomKills, err = s.watchMemory(); err != nil {
		return api.Errorf(api.SandboxLost, "%w", err)
	}
	err = runner.Prepare(ctx, s.control, s.stdout, s.stderr, s.nonce, s.copy)
	if err != nil && s.oomKills() {
		return api.Errorf(api.Unsandboxable, "the import of the program used more than the memory limit of a sandbox, %d MiB; raise it with --memory",
			s.limits.MemoryBytes>>20).Because("import_memory")
	}
	return err
}
