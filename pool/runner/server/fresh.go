package server

import (
	"net/http"
	"time"

	"github.com/code-sandbox/code-sandbox/pool/api"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

const maxProofBody = 16 << 10

// gone refuses whoever comes after the one run.
func gone(w http.ResponseWriter) {
	refuse(w, http.StatusGone, api.Errorf(api.SandboxLost, "the runner has served its one run"))
}

// fresh answers whether this runner has run nothing and can reach nothing.
func (s *Server) fresh(w http.ResponseWriter, r *http.Request) {
	var p wire.Proof
	if err := decode(w, r, maxProofBody, maxDepth, &p); err != nil {
		refuse(w, http.StatusBadRequest, api.Errorf(api.BadRequest, "cannot read the proof that is asked for: %w", err))
		return
	}
	if err := checkProof(p); err != nil {
		refuse(w, http.StatusBadRequest, api.Errorf(api.BadRequest, "cannot give this proof: %w", err))
		return
	}
	if s.used.Load() {
		gone(w)
		return
	}
	var answer wire.Fresh
	mounts, err := writableMounts()
	if err != nil {
		refuse(w, http.StatusInternalServerError, api.Errorf(api.Internal, "%w", err))
		return
	}
	answer.Writable = mounts
	answer.Open, answer.Reason, answer.Proof = newProver().prove(r.Context(), p)
	// A copy has no interpreter before it has given the proof.
	if !s.config.Copy && !s.isReady(w, r) {
		return
	}
	if s.used.Load() || s.prepared.Load() {
		gone(w)
		return
	}
	answer.Fresh = len(answer.Open) == 0 && answer.Reason == ""
	if !s.config.Copy {
		answer.Preloaded, answer.Python = s.interpreter.Preloaded, s.interpreter.Python
	}
	if answer.Fresh {
		s.closed.Store(len(p.Canaries) > 0)
		s.pool.Store(connectionOf(r))
	}
	tell(w, answer)
}

// isReady waits for the interpreter; it has answered when it is false.
func (s *Server) isReady(w http.ResponseWriter, r *http.Request) bool {
	select {
	case <-s.ready:
	case <-r.Context().Done():
		return false
	}
	if s.failure != nil {
		refuse(w, http.StatusBadGateway, api.Errorf(api.SandboxLost, "%w", s.failure))
		return false
	}
	return true
}

// decode reads a bounded body in bounded time.
func decode(w http.ResponseWriter, r *http.Request, most int64, depth int, into any) error {
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyBound)); err != nil {
		return err
	}
	if err := readJSON(http.MaxBytesReader(w, r.Body, most), depth, into); err != nil {
		return err
	}
	// The server reads on, to see the caller hang up.
	return control.SetReadDeadline(time.Time{})
}
