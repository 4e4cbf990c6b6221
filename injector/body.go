package injector

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"time"
)

const (
	// maxBody bounds a review. The API server takes no object above 3 MiB, and
	// writes it into the review once.
	maxBody = 4 << 20
	// bodyBound is what a review may take to come: the API server has all of it
	// before it asks.
	bodyBound = 2 * time.Second
)

// readReview reads a body, in time and as long as there is room for it.
func (h *handler) readReview(w http.ResponseWriter, r *http.Request, body *arriving) ([]byte, *failure) {
	bad := func(status int, format string, args ...any) *failure {
		return &failure{status, failBody, fmt.Errorf(format, args...)}
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, bad(http.StatusMethodNotAllowed, "an admission review is sent with POST")
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, bad(http.StatusUnsupportedMediaType, "the Content-Type must be application/json")
	}
	// A writer that knows no deadlines is not a server's; ReadTimeout stands behind.
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyBound)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, bad(http.StatusInternalServerError, "cannot bound the time of the review: %w", err)
	}
	body.Reader = http.MaxBytesReader(w, r.Body, maxBody)
	raw, err := io.ReadAll(body)
	if err == nil {
		return raw, nil
	}
	_, large := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, errBusy):
		return nil, &failure{http.StatusServiceUnavailable, failBusy, err}
	case large:
		return nil, bad(http.StatusRequestEntityTooLarge, "the review is above %d bytes", maxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, bad(http.StatusRequestTimeout, "the review did not come within %v", bodyBound)
	}
	return nil, bad(http.StatusBadRequest, "cannot read the review: %w", err)
}
