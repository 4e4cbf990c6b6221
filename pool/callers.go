package pool

import (
	"context"
	"net/netip"
)

// Callers tells who a bearer token stands for. On a cluster that is the agent
// pod to which the token was given: its namespace is the tenant, its name and
// uid are the name.
type Callers interface {
	// Resolve verifies the token. The error is an *api.Error of which nothing
	// ran: unauthenticated for a token that is not good, forbidden for one of
	// somebody who may not run anything, no_capacity when it cannot be verified
	// for now. It is called concurrently and returns soon after ctx ends. from is
	// the address that showed the token; it proves nothing, and may be zero, but
	// what one address may ask for is bounded apart from others.
	Resolve(ctx context.Context, token string, from netip.Addr) (Caller, error)
}
