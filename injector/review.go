package injector

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// errRequest marks a body that no API server sends.
var errRequest = errors.New("not an admission review of a pod")

// parseReview reads what the API server asks.
func parseReview(body []byte) (*admissionv1.AdmissionRequest, *corev1.Pod, error) {
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	req := review.Request
	switch {
	case review.APIVersion != admissionv1.SchemeGroupVersion.String() || review.Kind != "AdmissionReview" || req == nil:
		return nil, nil, fmt.Errorf("%w: it is a %q of %q", errRequest, clip(review.Kind), clip(review.APIVersion))
	case req.UID == "":
		return nil, nil, fmt.Errorf("%w: it has no uid", errRequest)
	case req.Kind != (metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}) || req.SubResource != "" || req.Operation != admissionv1.Create:
		return nil, nil, fmt.Errorf("%w: it is about %q of a %q", errRequest, clip(string(req.Operation)), clip(req.Kind.Kind))
	case req.Namespace == "":
		return nil, nil, fmt.Errorf("%w: it names no namespace", errRequest)
	}
	var pod corev1.Pod
	if err := json.Unmarshal(req.Object.Raw, &pod); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	return req, &pod, nil
}

// result is how an admission ends, as the metric counts it.
type result string

const (
	injected result = "injected"
	skipped  result = "skipped"
	denied   result = "denied"
)

// answer is what the API server is told about a pod, and why.
type answer struct {
	result   result
	verdict  Verdict
	warnings []string
	patch    []Op
}

// consider decides about a pod of the namespace.
func consider(pod *corev1.Pod, namespace *corev1.Namespace, c Config) answer {
	v, policy, unknown := judge(pod, namespace, c)
	if v.Reason != "" {
		return refuse(v, c)
	}
	a := answer{result: injected, patch: Mutate(pod, c, policy)}
	for _, key := range unknown {
		a.warnings = append(a.warnings, fmt.Sprintf("code-sandbox: the annotation %s means nothing", clip(key)))
	}
	if len(a.patch) == 0 {
		return answer{result: skipped, verdict: Verdict{Reason: AlreadyInjected}}
	}
	return a
}

func refuse(v Verdict, c Config) answer {
	a := answer{result: skipped, verdict: v}
	switch kinds[v.Reason] {
	case mistaken:
		a.result = denied
	case impossible:
		if a.result = denied; !c.Deny {
			a.result = skipped
			a.warnings = []string{"code-sandbox: no sidecar: " + v.Message}
		}
	}
	return a
}

// response is the answer in the API server's words.
func (a answer) response(uid types.UID) (*admissionv1.AdmissionReview, error) {
	r := &admissionv1.AdmissionResponse{UID: uid, Allowed: a.result != denied, Warnings: a.warnings}
	if a.result == denied {
		r.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: fmt.Sprintf("code-sandbox (%s): %s; to run the pod without a sandbox service, annotate it with %s=false",
				a.verdict.Reason, a.verdict.Message, KeyInject)}
	}
	if len(a.patch) > 0 {
		raw, err := json.Marshal(a.patch)
		if err != nil {
			return nil, fmt.Errorf("cannot write the patch: %w", err)
		}
		kind := admissionv1.PatchTypeJSONPatch
		r.Patch, r.PatchType = raw, &kind
		r.AuditAnnotations = map[string]string{"result": string(injected)}
	} else {
		r.AuditAnnotations = map[string]string{"result": string(a.result), "reason": string(a.verdict.Reason)}
	}
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Response: r,
	}, nil
}
