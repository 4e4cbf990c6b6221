//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // client-go has no other yet
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Forward makes a port of the pod's own loopback reachable from this machine
// until the test ends, and returns its URL here. It is how a test calls what
// serves the agent at its localhost.
func (s *Space) Forward(pod string, port int) string {
	s.T.Helper()
	dialer, err := s.forwardDialer(pod)
	if err != nil {
		s.T.Fatalf("cannot forward a port of %q: %v", pod, err)
	}
	stop, ready, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		s.T.Fatalf("cannot forward a port of %q: %v", pod, err)
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	s.T.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			s.T.Logf("a port of %q was forwarded until: %v", pod, err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		s.T.Fatalf("cannot forward a port of %q: %v", pod, err)
	case <-time.After(Patience):
		s.T.Fatalf("cannot forward a port of %q: not within %s", pod, Patience)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		s.T.Fatalf("cannot forward a port of %q: %v", pod, err)
	}
	return fmt.Sprintf("http://127.0.0.1:%d", ports[0].Local)
}

func (s *Space) forwardDialer(pod string) (httpstream.Dialer, error) {
	target := s.Kube.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.Name).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(s.Config)
	if err != nil {
		return nil, err
	}
	return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target), nil
}
