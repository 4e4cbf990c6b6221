package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// elsewhere is the target behind a sidecar of which only the URL is known: a
// cluster, where each sandbox is a pod.
type elsewhere struct {
	url       string
	isolation string // what its results say stands around a program
}

func (e elsewhere) Run(ctx context.Context, req *wire.Request) (*wire.Result, error) {
	inPod(req, e.isolation)
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/run_python", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(post)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.400s", answer.Status, raw)
	}
	res := &wire.Result{}
	return res, json.Unmarshal(raw, res)
}

// patience is for sandboxes that are pods, on a node that the rows keep busy.
func (e elsewhere) patience() time.Duration { return 45 * time.Second }

// atOnce is how many rows a cluster is given at once: pods take a second to
// start, and a row that fills its node must not be what another one feels.
const atOnce = 3

// Every hostile program is stopped on the cluster behind CODE_SANDBOX_URL, too;
// with CODE_SANDBOX_USER_NAMESPACE=yes, its pods have user namespaces.
// Rows that set something up on this machine say why a cluster has no such
// thing, and what takes their place.
func TestHostileProgramsElsewhere(t *testing.T) {
	url := os.Getenv("CODE_SANDBOX_URL")
	if url == "" {
		return // the tests above have a target of their own
	}
	on := elsewhere{url: url}
	on.isolation = on.next(t).Isolation
	ownUsers := os.Getenv("CODE_SANDBOX_USER_NAMESPACE") == "yes"
	turns := make(chan struct{}, atOnce)
	t.Run("rows", func(t *testing.T) {
		for _, r := range table() {
			if r.host != nil {
				t.Logf("%s: not here: %s", r.name, r.here)
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				turns <- struct{}{}
				defer func() { <-turns }()
				excuse := r.pod
				if !ownUsers {
					excuse += r.shared
				}
				if on.isolation == "gvisor" {
					excuse += r.gvisor
				}
				switch wrong := r.try(t, on); {
				case wrong != "" && excuse != "":
					t.Logf("otherwise in a pod: %s: %.300s", excuse, wrong)
				case wrong != "":
					t.Errorf("%s must stop it: %s", r.layer, wrong)
				}
			})
		}
	})
	on.next(t)
}

// next is a run after all that were before it.
func (e elsewhere) next(t *testing.T) *wire.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	res, err := e.Run(ctx, &wire.Request{Code: "print('held')", TimeoutSeconds: 10})
	if err != nil || held(res) != "" {
		t.Fatalf("the next run: %v, %v", res, err)
	}
	return res
}

// A row means something on a cluster, or says why not.
func TestEveryRowSaysWhere(t *testing.T) {
	for _, r := range table() {
		if (r.host != nil) != (r.here != "") {
			t.Errorf("%q: it sets up the machine: %t; why that has no meaning elsewhere: %q", r.name, r.host != nil, r.here)
		}
	}
}
