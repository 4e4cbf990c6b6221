//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/code-sandbox/code-sandbox/test/cluster"
)

// Tag gives an image of the bed one more name in its registry, REPOSITORY:TAG, and
// returns it as pods pull it. A tag that is there already is moved.
func (s *Space) Tag(image, name string) string {
	s.T.Helper()
	if err := s.tag(s.T.Context(), image, name); err != nil {
		s.T.Fatalf("cannot tag the image %q as %q: %v", image, name, err)
	}
	return cluster.Registry + "/" + name
}

func (s *Space) tag(ctx context.Context, image, name string) error {
	repository, tag, ok := strings.Cut(name, ":")
	if !ok {
		return errors.New("the name has no tag")
	}
	_, digest, _ := strings.Cut(s.Image(image), "@")
	manifest, kind, err := s.manifest(ctx, http.MethodGet, image, digest, "", nil)
	if err == nil {
		_, _, err = s.manifest(ctx, http.MethodPut, repository, tag, kind, manifest)
	}
	return err
}

// manifest asks the registry about one, or to have it.
func (s *Space) manifest(ctx context.Context, method, repository, reference, kind string, body []byte) (content []byte, its string, err error) {
	url := "http://" + s.Bed.Registry + "/v2/" + repository + "/manifests/" + reference
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	request.SetBasicAuth(cluster.PrivateUser, cluster.PrivatePassword)
	request.Header.Set("Content-Type", kind)
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	content, err = io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("the registry answers %s to %s %s: %s", answer.Status, method, url, content)
	}
	return content, answer.Header.Get("Content-Type"), err
}
