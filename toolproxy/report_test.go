package toolproxy

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// Calls of audit mode are counted by what each record has more than the last.
func TestAudited(t *testing.T) {
	p := newProxy(t, value)
	told := func(boot, calls, decision string) {
		t.Helper()
		body := strings.Replace(bootJSON, `"b1"`, `"`+boot+`"`, 1)
		body = strings.Replace(body, `"decision":"sandboxed"`, `"decision":"`+decision+`","audited":`+calls, 1)
		if _, err := serve(t, t.Context(), p, "/v1/tools/hello", body); err != nil {
			t.Fatal(err)
		}
	}
	f := func(used, listed int64, sandboxed, refused float64) {
		t.Helper()
		all := p.Used()
		if len(all) != 1 || all[0].Audited != used || all[0].Calls != 0 || p.Tools()[0].Audited != listed {
			t.Errorf("%+v %+v", all, p.Tools())
		}
		is, not := testutil.ToFloat64(p.metrics.audited.WithLabelValues("sandboxed")), testutil.ToFloat64(p.metrics.audited.WithLabelValues("refused"))
		if is != sandboxed || not != refused {
			t.Errorf("%g and %g were counted", is, not)
		}
	}
	told("b1", "2", "sandboxed")
	f(2, 2, 2, 0)
	// The same once more, and then three more.
	told("b1", "2", "sandboxed")
	f(2, 2, 2, 0)
	told("b1", "5", "sandboxed")
	f(5, 5, 5, 0)
	// Another process adds its own; one that counts down takes nothing away.
	told("b2", "1", "refused")
	f(6, 6, 5, 1)
	told("b2", "-9", "refused")
	f(6, 5, 5, 1)
}
