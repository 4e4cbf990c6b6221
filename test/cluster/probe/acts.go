package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// patience bounds each attempt to reach something.
const patience = 2 * time.Second

func serve(address string) error {
	server := &http.Server{Addr: address, ReadHeaderTimeout: patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "probe", r.Host) })}
	return server.ListenAndServe()
}

// review is the part of an AdmissionReview that is needed here.
type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID string `json:"uid"`
	} `json:"request,omitempty"`
	Response *verdict `json:"response,omitempty"`
}

type verdict struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType"`
	Patch     []byte `json:"patch"`
}

// mark tells that a webhook was asked.
const mark = `[{"op":"add","path":"/metadata/annotations","value":{"bed.test/seen":"yes"}}]`

// webhook admits everything, and changes it by the patch. It tells of each pod that
// it was asked about.
func webhook(address, cert, key, patch string) error {
	handler := func(w http.ResponseWriter, r *http.Request) {
		var in review
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Request == nil {
			http.Error(w, "not a review", http.StatusBadRequest)
			return
		}
		fmt.Println("asked")
		in.Response = &verdict{UID: in.Request.UID, Allowed: true, PatchType: "JSONPatch", Patch: []byte(patch)}
		in.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(in)
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: patience, Handler: http.HandlerFunc(handler)}
	return server.ListenAndServeTLS(cert, key)
}

// dial tries every target at once and prints a line for each, in order.
func dial(targets []string) {
	results := make([]string, len(targets))
	var wg sync.WaitGroup
	for i, target := range targets {
		wg.Go(func() { results[i] = reach(target) })
	}
	wg.Wait()
	for i, target := range targets {
		fmt.Println(target, results[i])
	}
}

func reach(target string) string {
	if !strings.Contains(target, ":") {
		ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
		defer cancel()
		found, err := net.DefaultResolver.LookupHost(ctx, target)
		if err != nil || len(found) == 0 {
			return "unknown"
		}
		return found[0]
	}
	c, err := net.DialTimeout("tcp", target, patience)
	if err != nil {
		return "closed"
	}
	_ = c.Close()
	return "open"
}

// eat uses memory, touching every page of it, and then keeps it.
func eat(mib string) error {
	n, err := strconv.Atoi(mib)
	if err != nil {
		return fmt.Errorf("cannot eat %q: %w", mib, err)
	}
	var eaten [][]byte
	for range n {
		piece := make([]byte, 1<<20)
		for i := 0; i < len(piece); i += os.Getpagesize() {
			piece[i] = 1
		}
		eaten = append(eaten, piece)
	}
	fmt.Println("ate", len(eaten), "MiB")
	return sleep()
}

func sleep() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	<-ctx.Done()
	return nil
}
