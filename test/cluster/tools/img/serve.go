package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

type server struct{ listen, store, uploads, images, private string }

// run serves until it is killed. The images of the list are there as soon as
// the address answers.
func (s server) run() error {
	blobs := twoFolders{BlobHandler: registry.NewDiskBlobHandler(s.uploads), store: s.store}
	handler := registry.New(registry.WithBlobHandler(blobs), registry.Logger(log.New(os.Stderr, "", log.LstdFlags)))
	if err := s.preload(handler); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	return http.Serve(listener, s.guarded(handler))
}

// guarded asks for a name and a password where repositories are private.
func (s server) guarded(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if strings.HasPrefix(r.URL.Path, "/v2/private/") && user+":"+password != s.private {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "the repository is private", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

func (s server) preload(handler http.Handler) error {
	if s.images == "" {
		return nil
	}
	b, err := os.ReadFile(s.images)
	if err != nil {
		return fmt.Errorf("cannot read the list of images: %w", err)
	}
	var images map[string]string
	if err := json.Unmarshal(b, &images); err != nil {
		return fmt.Errorf("cannot read the list of images: %w", err)
	}
	for name, digest := range images {
		if err := s.push(handler, name, digest); err != nil {
			return fmt.Errorf("cannot push %q: %w", name, err)
		}
	}
	return nil
}

// push hands one manifest of the store to the registry, and holds the digest
// that the registry answers against the one that was asked for.
func (s server) push(handler http.Handler, name, digest string) error {
	repository, tag, ok := strings.Cut(name, ":")
	if !ok {
		return errors.New("the name has no tag")
	}
	manifest, err := os.ReadFile(filepath.Join(s.store, strings.TrimPrefix(digest, "sha256:")))
	if err != nil {
		return err
	}
	request, err := http.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, bytes.NewReader(manifest))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", string(types.OCIManifestSchema1))
	answer := &answer{header: http.Header{}}
	handler.ServeHTTP(answer, request)
	if answer.status != http.StatusCreated {
		return fmt.Errorf("the registry says %d: %s", answer.status, answer.body.String())
	}
	if got := answer.header.Get("Docker-Content-Digest"); got != digest {
		return fmt.Errorf("it is %s and should be %s", got, digest)
	}
	return nil
}

// answer keeps what a handler says.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// twoFolders looks for blobs among the images that were built, then among
// those that were pushed; it writes to the second alone.
type twoFolders struct {
	registry.BlobHandler
	store string
}

func (t twoFolders) Stat(ctx context.Context, repository string, h v1.Hash) (int64, error) {
	if info, err := os.Stat(filepath.Join(t.store, h.Hex)); err == nil {
		return info.Size(), nil
	}
	return t.BlobHandler.(registry.BlobStatHandler).Stat(ctx, repository, h)
}

func (t twoFolders) Get(ctx context.Context, repository string, h v1.Hash) (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(t.store, h.Hex))
	if err == nil {
		return f, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return t.BlobHandler.Get(ctx, repository, h)
}

func (t twoFolders) Put(ctx context.Context, repository string, h v1.Hash, content io.ReadCloser) error {
	return t.BlobHandler.(registry.BlobPutHandler).Put(ctx, repository, h, content)
}
