package node

import (
	"fmt"
	"net/http"
	"time"
)

// ServeWorld answers every request at port 80, as the internet and a cloud's
// metadata server, which the cluster has instead of the true ones.
func ServeWorld() error {
	server := &http.Server{Addr: ":80", ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "world") })}
	return server.ListenAndServe()
}
