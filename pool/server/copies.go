package server

import (
	"net/http"
	"time"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
)

// serveCopies serves POST /v1/copies: a copy that will be called soon is made when
// there is room. It counts like a run, as far as callers are bounded.
func (s *Server) serveCopies(w http.ResponseWriter, r *http.Request, c pool.Caller) *api.Error {
	size, _, err := s.header(r)
	if err != nil {
		return err
	}
	leave, err := s.letIn(c, size, time.Now())
	if err != nil {
		return err
	}
	defer leave()
	body := &api.CopyBody{}
	if err := readBody(w, r, size, body); err != nil {
		return err
	}
	if body.Copy == nil {
		return api.Errorf(api.BadRequest, `cannot understand the request: "copy" is missing`)
	}
	t, failure := s.Template(r.Context(), c, &api.RunBody{Copy: body.Copy})
	if failure != nil {
		return api.From(failure)
	}
	s.Pool.Ahead(t)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte("{}\n")) // fails only when the client is gone
	return nil
}
