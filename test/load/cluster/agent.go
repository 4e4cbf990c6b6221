package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

//go:embed agent.py
var agentProgram string

const (
	tokenFolder = "/var/run/secrets/code-sandbox"
	agentName   = "agent"
)

// orders say what the program in the agent's container does.
type orders struct {
	Code    string  `json:"code"`
	Callers int     `json:"callers"`
	Each    int     `json:"each"`    // requests of each caller; zero is no bound
	Seconds float64 `json:"seconds"` // until when a caller begins new ones; zero is no bound
	Gap     float64 `json:"gap"`     // seconds between the times at which requests are due; zero waits for answers alone
	Alone   bool    `json:"alone"`   // after each request, send one that the sidecar refuses by itself
	Get     string  `json:"get"`     // fetch this address, and nothing else
}

// shot is one request and what became of it. Its times are in seconds.
type shot struct {
	Due        float64 `json:"due"`
	Began      float64 `json:"began"`
	Ended      float64 `json:"ended"`
	Alone      float64 `json:"alone"`
	Status     int     `json:"status"`
	RetryAfter string  `json:"retry_after"`
	Broken     string  `json:"broken"`
	Text       string  `json:"text"` // what orders.Get fetched
	Answer     answer  `json:"answer"`
}

// answer is what is looked at of the API's answer.
type answer struct {
	SandboxID string `json:"sandbox_id"`
	Stdout    string `json:"stdout"`
	Outcome   string `json:"outcome"`
	Isolation string `json:"isolation"`
	Warm      bool   `json:"warm"`
	Timing    struct {
		QueueMS float64 `json:"queue_ms"`
		ClaimMS float64 `json:"claim_ms"`
		RunMS   float64 `json:"run_ms"`
	} `json:"timing"`
	Error *struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
		Executed  string `json:"executed"`
	} `json:"error"`
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func millis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// took counts from when the request was due: a late generator is no excuse.
func (s shot) took() time.Duration { return seconds(s.Ended - s.Due) }

func (s shot) ended() time.Time { return time.UnixMicro(int64(s.Ended * 1e6)) }

// check is an error unless the program ran in a pod and printed what it should.
func (s shot) check(stdout string) error {
	switch a := s.Answer; {
	case s.Broken != "":
		return fmt.Errorf("a request had no answer: %s", s.Broken)
	case a.Error != nil:
		return fmt.Errorf("a run was refused: %d %s: %s", s.Status, a.Error.Code, a.Error.Message)
	case a.Outcome != "ok" || a.Stdout != stdout || a.Isolation != "pod":
		return fmt.Errorf("a run ended with %q, stdout %q, isolation %q", a.Outcome, a.Stdout, a.Isolation)
	}
	return nil
}

// call has the agent's container carry out orders.
func (p *Platform) call(ctx context.Context, o orders) ([]shot, error) {
	told, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(p.state.Bin, "kubectl"), "exec", "--namespace", agentsSpace, "--stdin", agentName,
		"--container", "main", "--", "python3", "-c", agentProgram)
	cmd.Env = append(os.Environ(), p.state.Env()...)
	cmd.Stdin = bytes.NewReader(told)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("cannot call from the agent's container: %w: %s", err, problems.String())
	}
	var shots []shot
	for d := json.NewDecoder(&out); d.More(); {
		var s shot
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("cannot read what the agent's container says: %w", err)
		}
		shots = append(shots, s)
	}
	if len(shots) == 0 {
		return nil, errors.New("the agent's container has said nothing")
	}
	return shots, nil
}

// withAgent gives f an agent with a sidecar that has reached the pool.
func (p *Platform) withAgent(ctx context.Context, f func() error) error {
	if err := p.remove(ctx, agentName); err != nil {
		return err
	}
	pod := p.agentPod(agentName, true)
	if _, err := p.kube.CoreV1().Pods(agentsSpace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("cannot make an agent: %w", err)
	}
	err := within(ctx, "the agent is ready", func() error {
		now, err := p.kube.CoreV1().Pods(agentsSpace).Get(ctx, agentName, metav1.GetOptions{})
		if err == nil && !isReady(now) {
			err = errors.New("it is not ready")
		}
		return err
	})
	if err == nil {
		err = within(ctx, "the sidecar reaches the pool", func() error {
			_, err := p.call(ctx, orders{Get: "http://127.0.0.1:8902/readyz"})
			return err
		})
	}
	if err == nil {
		err = f()
	}
	return errors.Join(err, p.remove(context.WithoutCancel(ctx), agentName))
}

// remove deletes an agent and waits until it is gone.
func (p *Platform) remove(ctx context.Context, name string) error {
	err := p.kube.CoreV1().Pods(agentsSpace).Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete the pod %q: %w", name, err)
	}
	return within(ctx, "the pod is gone", func() error {
		_, err := p.kube.CoreV1().Pods(agentsSpace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// agentPod is a pod of an agent's, as it is or as the injector would make it.
func (p *Platform) agentPod(name string, withSidecar bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: agentsSpace},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
			Containers: []corev1.Container{{
				Name: "main", Image: p.state.Images["agent-python"], Command: []string{"python3", "-c", "import signal; signal.pause()"},
				// One that asked for no processor would wait for every sandbox being made.
				Resources: corev1.ResourceRequirements{Requests: amounts("200m", "64Mi")},
			}},
		},
	}
	if !withSidecar {
		return pod
	}
	pod.Spec.InitContainers = []corev1.Container{p.sidecar()}
	pod.Spec.Volumes = []corev1.Volume{{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: "code-sandbox-pool", ExpirationSeconds: new(int64(600)), Path: "token"}}},
	}}}}
	return pod
}

func (p *Platform) sidecar() corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	return corev1.Container{
		Name: "sidecar", Image: p.state.Images["code-sandbox"], Command: []string{"/usr/local/bin/sidecar"}, RestartPolicy: &always,
		Env: []corev1.EnvVar{
			{Name: "CODE_SANDBOX_POOL", Value: "code-sandbox-pool." + systemSpace + ".svc:8443"},
			{Name: "CODE_SANDBOX_POOL_CA", Value: p.ca},
			{Name: "CODE_SANDBOX_TOKEN_FILE", Value: tokenFolder + "/token"},
			{Name: "CODE_SANDBOX_POD_UID", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}},
			{Name: "GOMEMLIMIT", Value: "53687091"}, {Name: "GOMAXPROCS", Value: "2"},
		},
		Resources:    corev1.ResourceRequirements{Requests: amounts("10m", "24Mi"), Limits: amounts("500m", "64Mi")},
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: tokenFolder, ReadOnly: true}},
		StartupProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8902)}},
			PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 60,
		},
		SecurityContext: &corev1.SecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(8900)), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}
