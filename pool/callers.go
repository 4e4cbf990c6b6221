package pool

import "context"

// Callers tells who a bearer token stands for. On a cluster that is the agent
// pod to which the token was given: its namespace is the tenant, its name and
// uid are the name.
type Callers interface {
	// Resolve verifies the token. The error is an *api.Error of which nothing
	// ran: unauthenticated for a token that is not good, forbidden for one of
	// somebody who may not run anything, no_capacity when it cannot be verified
	// for now. It is called concurrently and returns soon after ctx ends.
	Resolve(ctx context.Context, token string) (Caller, error)
}
