package local

import (
	"strings"
	"testing"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// The hint about writing is for what was to be written.
func TestDeniedReadAndWrite(t *testing.T) {
	d := newDriver(t, nil)
	f := func(code string, denial wire.Denial, hint bool) {
		t.Helper()
		s, err := d.Start(t.Context(), pool.Template{Limits: wire.DefaultLimits(), DNS: "none"})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Destroy(t.Context(), s.ID())
		res, err := s.Run(t.Context(), &wire.Request{TimeoutSeconds: 10, Code: code}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Denied) != 1 || res.Denied[0] != denial || strings.Contains(res.Reason, "can be written") != hint {
			t.Errorf("%s: denied %v, %s", code, res.Denied, res.Reason)
		}
	}
	f("open('/proc/1/environ')", wire.DeniedOperation, false)
	f("open('/etc/hosts', 'w')", wire.DeniedFilesystem, true)
	f("open('/usr/new', 'w')", wire.DeniedFilesystem, true)
}
