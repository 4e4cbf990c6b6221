package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

const (
	// eventReason is the reason of our Events; their messages begin with the cause.
	eventReason = "SandboxNotStarted"
	eventSource = "code-sandbox-pool"
	eventBound  = 5 * time.Second // for the API server to take one
	maxMessage  = 1000            // bytes of a message; the API server takes 1024

	reasonTimeout = "timeout" // of a start as a whole
	reasonOther   = "other"
	reasonProgram = "program" // of a copy: the agent's program cannot be imported in it
)

// untold are reasons that an operator can do nothing about, or nothing that an
// Event would help with: they are counted only.
var untold = []string{reasonAPIServer, reasonLost, reasonTimeout, reasonOther}

// failed counts a start that failed, and tells people why, where they look
// first: in one Event for each cause, with the number of failures. It never
// waits for that.
func (st *start) failed(err error) {
	if errors.Is(err, context.Canceled) { // the pool gave it up
		return
	}
	reason := reasonOf(err)
	if st.program {
		reason = reasonProgram // its own words are no label, and nobody's but its caller's to read
	}
	d := st.driver
	d.metrics.failures.WithLabelValues(reason).Inc()
	// A copy's caller is told, and an agent's namespace lets nobody write Events.
	if st.template.Copy != nil || slices.Contains(untold, reason) {
		return
	}
	c := cause{namespace: st.asked.Namespace, reason: reason, image: st.template.Image}
	as, due := d.notices.failed(c, time.Now())
	if !due {
		return
	}
	message := fmt.Sprintf("%s: %s", reason, err)
	message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	d.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), eventBound)
		defer cancel()
		if err := d.tell(ctx, c, as, message, st.id.name); err != nil {
			d.log.Warn("cannot write an Event", "namespace", c.namespace, "reason", c.reason, "error", err)
		}
	})
}

// reasonOf is one of a fixed set of words.
func reasonOf(err error) string {
	e, typed := errors.AsType[*api.Error](err)
	switch {
	case typed && e.Reason != "":
		return e.Reason
	case errors.Is(err, context.DeadlineExceeded):
		return reasonTimeout
	}
	return reasonOther
}

// tell makes the Event of a cause, or brings it up to date.
func (d *Driver) tell(ctx context.Context, c cause, as notice, message, pod string) error {
	events := d.opts.Bookkeeping.CoreV1().Events(c.namespace)
	if as.event != "" {
		patch, err := json.Marshal(map[string]any{"count": as.count, "lastTimestamp": metav1.NewTime(as.last), "message": message})
		if err != nil {
			return err
		}
		_, err = events.Patch(ctx, as.event, types.MergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) { // the API server keeps an Event for an hour
			return err
		}
	}
	made, err := events.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: pod + ".start", Namespace: c.namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: c.namespace, Name: pod},
		Type:           corev1.EventTypeWarning, Reason: eventReason, Message: message, Count: as.count,
		FirstTimestamp: metav1.NewTime(as.first), LastTimestamp: metav1.NewTime(as.last),
		Source: corev1.EventSource{Component: eventSource}, ReportingController: eventSource, ReportingInstance: d.replica,
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	d.notices.made(c, made.Name)
	return nil
}
