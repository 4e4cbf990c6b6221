package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
)

// maxBody bounds a review. The API server takes no object above 3 MiB, and
// writes it into the review once.
const maxBody = 4 << 20

// handler answers the API server.
type handler struct {
	config    func() (Config, error)
	namespace func(ctx context.Context, name string) (*corev1.Namespace, error)
	metrics   *metrics
	events    events
	log       hclog.Logger
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

func (h *handler) admit(w http.ResponseWriter, r *http.Request, began time.Time) (*admissionv1.AdmissionReview, *failure) {
	body, fail := readReview(w, r)
	if fail != nil {
		return nil, fail
	}
	req, pod, err := parseReview(body)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, failBody, err}
	}
	config, err := h.config()
	if err != nil {
		return nil, &failure{http.StatusServiceUnavailable, failAuthority, err}
	}
	namespace, err := h.namespace(r.Context(), req.Namespace)
	if err != nil {
		return nil, &failure{http.StatusServiceUnavailable, failNamespace, fmt.Errorf("cannot read the namespace %q: %w", clip(req.Namespace), err)}
	}
	a := consider(pod, namespace, config)
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

func readReview(w http.ResponseWriter, r *http.Request) ([]byte, *failure) {
	bad := func(status int, format string, args ...any) *failure {
		return &failure{status, failBody, fmt.Errorf(format, args...)}
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, bad(http.StatusMethodNotAllowed, "an admission review is sent with POST")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, bad(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, bad(http.StatusRequestEntityTooLarge, "the review is above %d bytes", maxBody)
	}
	if err != nil {
		return nil, bad(http.StatusBadRequest, "cannot read the review: %w", err)
	}
	return body, nil
}
