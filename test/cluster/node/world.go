package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// ServeWorld answers every request at port 80, as the internet and a cloud's
// metadata server, which the cluster has instead of the true ones. It counts
// those below /ran/ by their path, and tells the counts at /ran.
func ServeWorld() error {
	server := &http.Server{Addr: ":80", ReadHeaderTimeout: 5 * time.Second, Handler: &world{ran: map[string]int{}}}
	return server.ListenAndServe()
}

type world struct {
	mu  sync.Mutex
	ran map[string]int
}

func (s *world) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/ran" {
		_ = json.NewEncoder(w).Encode(s.ran) // fails only when the caller is gone
		return
	}
	if path, ok := strings.CutPrefix(r.URL.Path, "/ran/"); ok {
		s.ran[path]++
	}
	fmt.Fprintln(w, "world")
}
