package request

import "time"

// Seconds is a duration in seconds, the API's unit.
type Seconds float64

// Duration is s as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(float64(s) * float64(time.Second)) }

// Limits bounds one request. Every field must be positive.
type Limits struct {
	CodeBytes      int     `json:"code_bytes"`
	BodyBytes      int     `json:"body_bytes"` // the whole body, files included
	DefaultTimeout Seconds `json:"default_timeout_seconds"`
	MaxTimeout     Seconds `json:"max_timeout_seconds"`
	Args           int     `json:"args"`
	Env            int     `json:"env"`
	Files          int     `json:"files"`
	PathBytes      int     `json:"path_bytes"`
}

// DefaultLimits are the limits of design and documentation.
func DefaultLimits() Limits {
	return Limits{
		CodeBytes: 1 << 20, BodyBytes: 16 << 20,
		DefaultTimeout: 30, MaxTimeout: 300,
		Args: 1024, Env: 256, Files: 256, PathBytes: 1024,
	}
}
