package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	apiTimeout  = 90 * time.Second
	nodeTimeout = 60 * time.Second
	dnsTimeout  = 60 * time.Second
	poll        = 100 * time.Millisecond
)

// waitReady returns once the node takes pods and the cluster's DNS answers.
func (b *Bed) waitReady(ctx context.Context, s State) error {
	err := wait(ctx, apiTimeout, "the API server answers", func(ctx context.Context) error {
		if !s.alive() {
			return fmt.Errorf("the node has ended: %w", errGivenUp)
		}
		return apiAnswers(ctx, s)
	})
	if err != nil {
		return err
	}
	b.log.Info("API server is ready")
	apply := exec.CommandContext(ctx, filepath.Join(s.Bin, "kubectl"), "--kubeconfig", s.Kubeconfig,
		"create", "-f", filepath.Join(s.Work, "etc", "system.yaml"))
	apply.Env = append(os.Environ(), s.Env()...)
	if out, err := apply.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot create the cluster's own objects: %w: %s", err, out)
	}
	if err := wait(ctx, nodeTimeout, "the node is ready", func(ctx context.Context) error { return nodeReady(ctx, s) }); err != nil {
		return err
	}
	b.log.Info("node is ready")
	return wait(ctx, dnsTimeout, "the cluster's DNS is ready", func(ctx context.Context) error { return dnsReady(ctx, s) })
}

// errGivenUp ends a wait before its time: what is waited for cannot come.
var errGivenUp = errors.New("no use in waiting")

func wait(ctx context.Context, atMost time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if errors.Is(err, errGivenUp) {
			return fmt.Errorf("cannot wait until %s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot wait longer than %s until %s: %w", atMost, what, err)
		case <-time.After(poll):
		}
	}
}

func apiAnswers(ctx context.Context, s State) error {
	_, err := get(ctx, s, "/readyz")
	return err
}

func nodeReady(ctx context.Context, s State) error {
	raw, err := get(ctx, s, "/api/v1/nodes/"+NodeName)
	if err != nil {
		return err
	}
	var n struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	for _, c := range n.Status.Conditions {
		if c.Type == "Ready" && c.Status != "True" {
			return errors.New(c.Message)
		}
		if c.Type == "Ready" {
			return nil
		}
	}
	return errors.New("the node has no condition")
}

func dnsReady(ctx context.Context, s State) error {
	raw, err := get(ctx, s, "/apis/apps/v1/namespaces/kube-system/deployments/coredns")
	if err != nil {
		return err
	}
	var d struct{ Status struct{ ReadyReplicas int } }
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	if d.Status.ReadyReplicas == 0 {
		return errors.New("no replica is ready")
	}
	return nil
}

// get asks the API server as its admin.
func get(ctx context.Context, s State, path string) ([]byte, error) {
	client, err := adminClient(s.Kubeconfig)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.API+path, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the API server says %s", answer.Status)
	}
	return body, nil
}

func adminClient(kubeconfig string) (*http.Client, error) {
	raw, err := os.ReadFile(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	var c struct {
		Clusters []struct {
			Cluster struct {
				CA []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	if err := json.Unmarshal(raw, &c); err != nil || len(c.Clusters) != 1 || len(c.Users) != 1 {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", errors.Join(err, errors.New("it is not one of ours")))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.Clusters[0].Cluster.CA)
	pair, err := tls.X509KeyPair(c.Users[0].User.Cert, c.Users[0].User.Key)
	if err != nil {
		return nil, fmt.Errorf("cannot read the admin's key: %w", err)
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}}, nil
}
