// Package api holds what the pool and its clients share beside the run itself:
// the errors of our own making. A program that fails is not an error; it is a
// wire.Result.
package api

import (
	"errors"
	"fmt"
	"time"
)

// Code names a failure of the caller's or of ours. The set is closed.
type Code string

// The codes. Each has its HTTP status in the table below.
const (
	BadRequest       Code = "bad_request"
	Unauthenticated  Code = "unauthenticated"
	Forbidden        Code = "forbidden"
	NotFound         Code = "not_found"
	MethodNotAllowed Code = "method_not_allowed"
	Conflict         Code = "conflict"
	TooLarge         Code = "too_large"
	Unsandboxable    Code = "unsandboxable"
	Busy             Code = "busy"
	Internal         Code = "internal"
	SandboxLost      Code = "sandbox_lost"
	NoCapacity       Code = "no_capacity"
	Timeout          Code = "timeout"
)

// statuses is the one table from code to HTTP status, and whether the same
// request may succeed when it is sent again.
var statuses = map[Code]struct {
	status    int
	retryable bool
}{
	BadRequest:       {400, false},
	Unauthenticated:  {401, false},
	Forbidden:        {403, false},
	NotFound:         {404, false},
	MethodNotAllowed: {405, false},
	Conflict:         {409, false},
	TooLarge:         {413, false},
	Unsandboxable:    {422, false},
	Busy:             {429, true},
	Internal:         {500, false},
	SandboxLost:      {502, true},
	NoCapacity:       {503, true},
	Timeout:          {504, true},
}

// Codes lists every code with its HTTP status.
func Codes() map[Code]int {
	all := make(map[Code]int, len(statuses))
	for code, s := range statuses {
		all[code] = s.status
	}
	return all
}

// Executed says whether any of the program may have run.
type Executed string

// Only No is ever safe to retry without an Idempotency-Key.
const (
	No    Executed = "no"
	Maybe Executed = "maybe"
)

// Error is a failure that is not the program's. It is what a client sees.
type Error struct {
	Code     Code     `json:"code"`
	Message  string   `json:"message"`
	Retry    bool     `json:"retryable"`
	Executed Executed `json:"executed"`
	// Reason is one word for why, where a code has several causes: of what
	// cannot be sandboxed, and of how a tool call was lost.
	Reason string `json:"reason,omitempty"`
	// RetryAfter is sent as the Retry-After header, in whole seconds, when set.
	RetryAfter time.Duration `json:"-"`
	cause      error
}

// Errorf makes an Error of which nothing ran. A %w in the format is unwrapped
// by errors.Is and errors.As.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Retry: statuses[code].retryable, Executed: No, cause: errors.Unwrap(err)}
}

// MaybeRan marks that some of the program may have run.
func (e *Error) MaybeRan() *Error {
	e.Executed = Maybe
	return e
}

// Because sets the one word for why.
func (e *Error) Because(reason string) *Error {
	e.Reason = reason
	return e
}

// After sets when a retry is worth trying.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Status is the HTTP status of the error's code.
func (e *Error) Status() int { return statuses[e.Code].status }

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.cause }

// From makes an Error of any error: an *Error as it is, another as Internal.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Errorf(Internal, "%w", err).MaybeRan()
}
