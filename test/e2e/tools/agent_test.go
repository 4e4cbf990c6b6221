//go:build e2e

package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/code-sandbox/code-sandbox/test/e2e"
)

// mark is in every credential of the tests, and jwt at the start of every token.
const (
	mark = "sk-e2e-"
	jwt  = "eyJ"
)

// credentials are what agents have in their namespace.
func (p *platform) credentials(t *testing.T) {
	t.Helper()
	s := p.agents
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, StringData: map[string]string{
		"OPENAI_API_KEY": mark + "env-0123456789abcdef", "DB_URL": "postgres://agent:" + mark + "db@db.internal:5432/app", "PORT": "8080"}}
	if _, err := s.Kube.CoreV1().Secrets(s.Name).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{
		"SETTINGS_KEY": mark + "map-0123456789abcdef", "PYTHONPATH": "/app/lib:/from/the/map",
		"late.py": "from langchain_core.tools import tool\n\n@tool\ndef late(path: str) -> str:\n    \"\"\"Leaves a mark.\"\"\"\n    open(path, 'w').write('x')\n    return 'ran'\n"}}
	if _, err := s.Kube.CoreV1().ConfigMaps(s.Name).Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// agent is a pod as an author writes it, with credentials of every kind.
func (p *platform) agent(name string, command ...string) *corev1.Pod {
	pod := p.agents.Pod(name, "agent-code")
	yes, seconds := true, int64(3600)
	pod.Spec.AutomountServiceAccountToken = &yes
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}},
		{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "sts.example", ExpirationSeconds: &seconds, Path: "token"}}}}}},
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	main := &pod.Spec.Containers[0]
	main.Command, main.Args = command, nil
	main.Env = []corev1.EnvVar{
		{Name: "OPENAI_API_KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "OPENAI_API_KEY",
			LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}}},
		{Name: "EXPECTED_KEY", Value: mark + "plain-0123456789abcdef"},
		{Name: "AWS_ROLE_ARN", Value: "arn:aws:iam::1:role/" + mark + "role"}, {Name: "AWS_WEB_IDENTITY_TOKEN_FILE", Value: "/projected/token"},
		{Name: "OPENAI_AGENTS_DISABLE_TRACING", Value: "1"},
	}
	main.EnvFrom = []corev1.EnvFromSource{{Prefix: "FROM_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}}}
	main.VolumeMounts = []corev1.VolumeMount{{Name: "secret", MountPath: "/etc/agent", ReadOnly: true}, {Name: "token", MountPath: "/projected", ReadOnly: true},
		{Name: "tmp", MountPath: "/tmp"}}
	main.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("512Mi")}
	return pod
}

// annotate adds annotations of ours to a pod.
func annotate(pod *corev1.Pod, pairs ...string) *corev1.Pod {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	for i := 0; i < len(pairs); i += 2 {
		pod.Annotations["code-sandbox.dev/"+pairs[i]] = pairs[i+1]
	}
	return pod
}

// calls is the command of the agent whose model wants tools called.
func calls(t *testing.T, wanted ...any) []string {
	t.Helper()
	raw, err := json.Marshal(wanted)
	if err != nil {
		t.Fatal(err)
	}
	return []string{"python3", "-u", "openai_agent.py", string(raw)}
}

// call is one of them.
func call(tool string, arguments map[string]any) []any { return []any{tool, arguments} }

// result is what an agent said at its end.
type result struct {
	PID   int
	Host  string
	Said  []string
	Marks []string
	Sync  []string
	Async []string
}

// patience bounds an agent that calls tools in cold copies, on a busy machine.
const patience = 3 * time.Minute

// run creates an agent, and waits for what it says.
func (p *platform) run(t *testing.T, pod *corev1.Pod) result {
	t.Helper()
	p.agents.Create(pod)
	return p.said(t, pod.Name)
}

func (p *platform) said(t *testing.T, name string) result {
	t.Helper()
	var r result
	if err := json.Unmarshal(p.word(t, name, patience), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// word waits for the last word of an agent.
func (p *platform) word(t *testing.T, name string, atMost time.Duration) (word []byte) {
	t.Helper()
	err := e2e.Within(t.Context(), atMost, func(ctx context.Context) error {
		raw, err := p.agents.Kube.CoreV1().Pods(p.agents.Name).GetLogs(name, &corev1.PodLogOptions{Container: "main"}).DoRaw(ctx)
		if err != nil {
			return err
		}
		_, line, found := strings.Cut(string(raw), "RESULT ")
		if line, _, whole := strings.Cut(line, "\n"); found && whole {
			word = []byte(line)
			return nil
		}
		return fmt.Errorf("the agent has said %q", raw)
	})
	if err != nil {
		t.Fatalf("no result within %s: %v", atMost, err)
	}
	return word
}

// seen is what a tool found that looked around.
type seen struct {
	PID     int
	Host    string
	Environ map[string]string
	Files   map[string]string
	Proc    map[string]string
	Helper  int
	UserRan int `json:"user_ran"`
}

func look(t *testing.T, text string) seen {
	t.Helper()
	var s seen
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("the tool said %.400q: %v", text, err)
	}
	return s
}

// credentialsIn names where a credential was found.
func (s seen) credentialsIn() (found []string) {
	for where, all := range map[string]map[string]string{"environ": s.Environ, "files": s.Files, "proc": s.Proc} {
		for name, text := range all {
			if strings.Contains(text, mark) || strings.Contains(text, jwt) {
				found = append(found, where+" "+name)
			}
		}
	}
	return found
}

// copies are the copies that there are.
func (p *platform) copies(ctx context.Context) ([]corev1.Pod, error) {
	list, err := p.agents.Kube.CoreV1().Pods(p.agents.Name).List(ctx, metav1.ListOptions{LabelSelector: "code-sandbox.dev/copy=true"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

var errNotYet = errors.New("not yet")
