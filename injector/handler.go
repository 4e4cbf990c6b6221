package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// handler answers the API server.
type handler struct {
	config    func() (Config, error)
	namespace func(ctx context.Context, name string, fresh bool) (*corev1.Namespace, error)
	// refresh makes config know the authority of this moment.
	refresh func(context.Context) error
	metrics *metrics
	events  events
	log     hclog.Logger
	gate    gate
}

// failure is an admission without a decision.
type failure struct {
	status int
	cause  string
	err    error
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	defer func() {
		if p := recover(); p != nil {
			h.metrics.panics.Inc()
			h.log.Error("panic in an admission", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			http.Error(w, "this is a bug of the injector", http.StatusInternalServerError)
		}
	}()
	review, fail := h.admit(w, r, began)
	if fail != nil {
		h.metrics.failures.WithLabelValues(fail.cause).Inc()
		h.log.Warn("admission failed", "cause", fail.cause, "error", fail.err)
		http.Error(w, fail.err.Error(), fail.status)
		return
	}
	raw, err := json.Marshal(review)
	if err != nil {
		panic("BUG: an answer that cannot be written: " + err.Error())
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(raw) // the API server asks again when it has hung up
}

// admit reads a review and decides. Only one that was read and understood takes
// a place.
func (h *handler) admit(w http.ResponseWriter, r *http.Request, began time.Time) (*admissionv1.AdmissionReview, *failure) {
	body := &arriving{gate: h.gate}
	defer body.free()
	raw, fail := h.readReview(w, r, body)
	if fail != nil {
		return nil, fail
	}
	req, pod, err := parseReview(raw)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, failBody, err}
	}
	if !h.gate.reviews.TryAcquire(1) {
		return nil, &failure{http.StatusServiceUnavailable, failBusy, errBusy}
	}
	defer h.gate.reviews.Release(1)
	return h.decide(r.Context(), req, pod, began)
}

func (h *handler) decide(ctx context.Context, req *admissionv1.AdmissionRequest, pod *corev1.Pod, began time.Time) (*admissionv1.AdmissionReview, *failure) {
	namespace, a, fail := h.consider(ctx, req.Namespace, pod)
	if fail != nil {
		return nil, fail
	}
	review, err := a.response(req.UID)
	if err != nil {
		return nil, &failure{http.StatusInternalServerError, failBody, err}
	}
	dryRun := req.DryRun != nil && *req.DryRun
	if !dryRun {
		h.events.admission(pod, namespace.Name, a)
	}
	h.metrics.answered(a, time.Since(began))
	h.tell(pod, namespace.Name, a, dryRun)
	return review, nil
}

// consider decides about a pod of the namespace. One that was injected under
// another policy than the watch has, or with another authority than we have read,
// is held against those of this moment: another replica may have known them first.
// All that is asked for it together has one bound.
func (h *handler) consider(ctx context.Context, name string, pod *corev1.Pod) (*corev1.Namespace, answer, *failure) {
	ctx, cancel := context.WithTimeout(ctx, lookupBound)
	defer cancel()
	ns, a, fail := h.round(ctx, name, pod, false)
	if fail != nil || a.verdict.Reason != ForeignSidecar {
		return ns, a, fail
	}
	if err := h.refresh(ctx); err != nil {
		return nil, answer{}, &failure{http.StatusServiceUnavailable, failAuthority, fmt.Errorf("cannot read anew the authority that replicas share: %w", err)}
	}
	return h.round(ctx, name, pod, true)
}

// round decides by what is known, or with fresh by what is so.
func (h *handler) round(ctx context.Context, name string, pod *corev1.Pod, fresh bool) (*corev1.Namespace, answer, *failure) {
	config, err := h.config()
	if err != nil {
		return nil, answer{}, &failure{http.StatusServiceUnavailable, failAuthority, err}
	}
	ns, err := h.namespace(ctx, name, fresh)
	if err != nil {
		return nil, answer{}, &failure{http.StatusServiceUnavailable, failNamespace, fmt.Errorf("cannot read the namespace %q: %w", clip(name), err)}
	}
	return ns, consider(pod, ns, config), nil
}

// tell logs a decision: those that change something or need somebody's eye.
func (h *handler) tell(pod *corev1.Pod, namespace string, a answer, dryRun bool) {
	level := hclog.Info
	if kinds[a.verdict.Reason] == expected && a.result != injected {
		level = hclog.Debug
	}
	name := pod.Name
	if name == "" {
		name = pod.GenerateName
	}
	h.log.Log(level, "pod decided", "namespace", namespace, "pod", name, "result", string(a.result), "reason", string(a.verdict.Reason),
		"message", a.verdict.Message, "dry_run", dryRun)
}
