package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	maxReplicas   = 64
	lookupEvery   = 5 * time.Second        // at most, when all is well
	lookupSooner  = 250 * time.Millisecond // at most, when none can be reached
	lookupTimeout = 2 * time.Second
	// suspectFor is how long a replica that failed is asked last.
	suspectFor = 5 * time.Second
)

// replicas are the addresses that the pool's name stands for, in the order in
// which this client asks them: by rendezvous hash, so that each client has a
// replica of its own, and all clients of one that goes away spread over the
// others.
type replicas struct {
	host, port, self string
	lookup           func(ctx context.Context, host string) ([]string, error)

	mu        sync.Mutex
	looking   sync.Mutex // one lookup at a time
	addresses []string
	looked    time.Time // when the last lookup ended
	failure   error
	suspects  map[string]time.Time // until when
}

// order lists the addresses, suspects last. It looks them up when none is known.
func (r *replicas) order(ctx context.Context, now time.Time) ([]string, error) {
	if len(r.known()) == 0 {
		r.refreshAfter(ctx, lookupSooner)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.addresses) == 0 {
		return nil, fmt.Errorf("cannot find the pool: %w", r.failure)
	}
	all := slices.Clone(r.addresses)
	slices.SortStableFunc(all, func(a, b string) int {
		return cmp.Compare(r.rank(a, now), r.rank(b, now))
	})
	return all, nil
}

func (r *replicas) rank(address string, now time.Time) int {
	if now.Before(r.suspects[address]) {
		return 1
	}
	return 0
}

func (r *replicas) known() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addresses
}

// bad puts a replica behind the others for a while, good takes that back.
func (r *replicas) bad(address string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspects[address] = now.Add(suspectFor)
}

func (r *replicas) good(address string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.suspects, address)
}

// refresh looks the name up, unless that was done a moment ago.
func (r *replicas) refresh(ctx context.Context) { r.refreshAfter(ctx, lookupEvery) }

func (r *replicas) refreshAfter(ctx context.Context, age time.Duration) {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.mu.Lock()
	fresh := !r.looked.IsZero() && time.Since(r.looked) < age
	r.mu.Unlock()
	if fresh {
		return
	}
	limit, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	ips := []string{r.host}
	var err error
	if net.ParseIP(r.host) == nil {
		if ips, err = r.lookup(limit, r.host); err == nil && len(ips) == 0 {
			err = errors.New("its name has no address")
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil && err != nil {
		return // the asker has left; that says nothing of the name
	}
	r.looked, r.failure = time.Now(), err
	if err != nil {
		return // the addresses of before may still be good
	}
	r.addresses = ranked(ips, r.port, r.self)
	for address := range r.suspects {
		if !slices.Contains(r.addresses, address) {
			delete(r.suspects, address)
		}
	}
}

// ranked orders addresses for a client by rendezvous hash. It is pure, and what
// it returns does not depend on the order of ips.
func ranked(ips []string, port, self string) []string {
	type weighed struct {
		address string
		weight  uint64
	}
	all := make([]weighed, 0, len(ips))
	for _, ip := range ips {
		address := net.JoinHostPort(ip, port)
		sum := sha256.Sum256([]byte(self + "\x00" + address))
		all = append(all, weighed{address, binary.BigEndian.Uint64(sum[:])})
	}
	slices.SortFunc(all, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.address, b.address))
	})
	addresses := make([]string, 0, min(len(all), maxReplicas))
	for _, w := range all[:min(len(all), maxReplicas)] {
		addresses = append(addresses, w.address)
	}
	return slices.Compact(addresses)
}
