package kube

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// podOf is the pod that a template asks for.
func (d *Driver) podOf(ctx context.Context, t pool.Template, id identity) (p *corev1.Pod, of *agent, err error) {
	if t.Copy == nil {
		return d.forms.pod(nil, t, id), nil, nil
	}
	if d.opts.Copies == nil {
		return nil, nil, api.Errorf(api.Unsandboxable, "cannot start a sandbox: this pool makes no copies of agents").Because("no_copies")
	}
	a, failure := d.opts.Copies.agentFor(ctx, t)
	if failure != nil {
		return nil, nil, failure
	}
	if !d.watched(a.namespace) {
		return nil, nil, api.Errorf(api.NoCapacity, "cannot copy the agent yet: the pods of the namespace %q are not watched", a.namespace).
			Because(reasonAPIServer).After(retryAgent)
	}
	return d.forms.pod(a, t, id), a, nil
}

// prepare has a copy import the agent's program. Of an import that fails, nobody
// but the agent's author can say why; of a runner that is lost in it, its pod can.
func (st *start) prepare(ctx context.Context) error {
	if st.template.Copy == nil {
		return nil
	}
	defer st.driver.metrics.phase("prepare")()
	covers, err := st.conn.Prepare(ctx, st.template.Copy)
	e, ok := errors.AsType[*api.Error](err)
	switch {
	case err == nil && covers.Len() > 0:
		return &uncovered{covers}
	case err == nil:
		return nil
	case ok && e.Code != api.SandboxLost && e.Code != api.Timeout:
		st.program = true
		return err
	}
	if end, _ := lookAt(ctx, st.driver, st.entry); end != nil && end.outcome == wire.OutOfMemory {
		return api.Errorf(api.Unsandboxable, "the import of the program used more than the memory limit of a sandbox, %d MiB; have it raised",
			st.template.Limits.MemoryBytes>>20).Because("import_memory")
	}
	return pool.Accident(api.Errorf(api.NoCapacity, "cannot copy the agent: its copy did not get ready: %w", err).Because(reasonRunner))
}
