package kube

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/pool/api"
)

var (
	agents1   = netip.MustParseAddr("10.0.0.1") // the address of agent-1
	agents1v6 = netip.MustParseAddr("fd00::1")  // and its other one
	strangers = netip.MustParseAddr("10.0.0.9")
)

func addresses(p *corev1.Pod) {
	p.Status.PodIPs = []corev1.PodIP{{IP: agents1.String()}, {IP: agents1v6.String()}}
}

// forged shows n forged tokens that name agent-1, at once.
func (o *office) forged(from netip.Addr, n int, mark string) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if _, err := o.callers.Resolve(o.Context(), token("agents", "agent-1", "uid-1", life, fmt.Sprint(mark, i)), from); err == nil {
				o.Error("a forged token is good")
			}
		})
	}
	all.Wait()
}

// onlyGood has the API server know the tokens with the mark "good".
func (o *office) onlyGood(r *authenticationv1.TokenReview) error {
	if strings.HasSuffix(r.Spec.Token, ".good") {
		return o.good(r)
	}
	r.Status.Authenticated = false
	return nil
}

// Strangers who show forged tokens in a pod's name use up what is verified for
// strangers, never what is verified for the pod itself.
func TestStrangersLockNobodyOut(t *testing.T) {
	inOffice(t, func(o *office) {
		o.pod("agent-1", "uid-1", addresses)
		after(time.Millisecond)
		o.answers(o.onlyGood)
		good := token("agents", "agent-1", "uid-1", life, "good")
		o.forged(strangers, 1000, "a")
		if n := o.questions(); n != reviewBurst {
			o.Errorf("the API server was asked %d times", n)
		}
		// The right token, too, if a stranger shows it.
		o.wantFrom(strangers, good, api.NoCapacity, "too many tokens", 0)
		o.wantFrom(agents1, good, "", "", 1)
		// By its other address, with a token that is new.
		o.wantFrom(agents1v6, token("agents", "agent-1", "uid-1", life+time.Second, "good"), "", "", 1)
		// A pod's own address has a bound as well.
		before := o.questions()
		o.forged(agents1, 1000, "b")
		if n := o.questions() - before; n > reviewBurst {
			o.Errorf("the API server was asked %d times", n)
		}
	})
}

// Verifications of strangers that take long keep none of the pod's waiting.
func TestSlowReviewsOfStrangers(t *testing.T) {
	inOffice(t, func(o *office) {
		o.pod("agent-1", "uid-1", addresses)
		after(time.Millisecond)
		for range strangersAtOnce { // all under way
			o.callers.strangers <- struct{}{}
		}
		good := token("agents", "agent-1", "uid-1", life, "good")
		o.wantFrom(strangers, good, api.NoCapacity, "being verified", 0)
		o.wantFrom(agents1, good, "", "", 1)
	})
}

// One address that names pods which are not there leaves others room to wait for
// one that comes.
func TestWaitersOfOneAddress(t *testing.T) {
	inOffice(t, func(o *office) {
		var all sync.WaitGroup
		waited := 0
		var mu sync.Mutex
		for i := range 1000 {
			all.Go(func() {
				_, err := o.callers.Resolve(o.Context(), token("agents", fmt.Sprint("none-", i), "uid-none", life, "a"), strangers)
				if e := api.From(err); e.Code == api.Unauthenticated {
					mu.Lock()
					waited++
					mu.Unlock()
				}
			})
		}
		time.AfterFunc(time.Second, func() { o.pod("agent-2", "uid-2", nil) })
		got, err := o.callers.Resolve(o.Context(), token("agents", "agent-2", "uid-2", life, "good"), netip.MustParseAddr("10.0.0.2"))
		if err != nil || got.Name != "agent-2.uid-2" {
			o.Errorf("got %v, %v", got, err)
		}
		all.Wait()
		if waited != waitersOfOne {
			o.Errorf("%d of one address waited", waited)
		}
		if w := &o.callers.waiters; w.all != 0 || len(w.from) != 0 {
			o.Errorf("places are lost: %d, %v", w.all, w.from)
		}
	})
}
