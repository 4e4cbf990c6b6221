package load

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/api"
	poolclient "github.com/code-sandbox/code-sandbox/pool/api/client"
	"github.com/code-sandbox/code-sandbox/pool/pooltest"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// fleetRuns is how many runs a row has, at least one a caller.
const fleetRuns = 2000

// measureFleet asks how the pool's service grows: the sandboxes are fake, so
// that claim, service, client and TLS are all there is. It stands in this
// process, which the others of this package do not.
func measureFleet(ctx context.Context, e *Env, sheet *Sheet) error {
	for _, warm := range []int{10, 100, 1000} {
		for _, callers := range []int{1, 100, 1000} {
			err := e.eachRound(ctx, func() error {
				f, err := newFleet(ctx, warm, callers)
				if err != nil {
					return err
				}
				return errors.Join(f.measure(ctx, sheet), f.stop())
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

type fleet struct {
	warm    int
	memory  int64 // before there was anything
	clients []*poolclient.Client
	pool    *pool.Pool
	cancel  context.CancelFunc
	done    chan error
	token   string
}

// everybody is a caller of the name that is its token.
type everybody struct{}

func (everybody) Resolve(_ context.Context, token string, _ netip.Addr) (pool.Caller, error) {
	return pool.Caller{Tenant: "load", Name: token}, nil
}

func newFleet(ctx context.Context, warm, callers int) (*fleet, error) {
	f := &fleet{warm: warm, memory: heap(), done: make(chan error, 2)}
	cert, ca, err := selfSigned()
	if err != nil {
		return nil, err
	}
	template := pool.Template{Limits: wire.DefaultLimits()}
	driver := &pooltest.Fake{Run: func(context.Context, *pooltest.FakeSandbox, *wire.Request, wire.Sink) (*wire.Result, error) {
		return &wire.Result{Outcome: wire.OK}, nil
	}}
	f.pool, err = pool.New(pool.Options{Driver: driver, Templates: []pool.Template{template}, Target: warm, MaxTarget: warm, Max: 2*warm + 2*callers,
		MaxStarting: warm, MaxDestroying: warm, QueueLimit: 2 * callers})
	if err != nil {
		return nil, err
	}
	limits := server.DefaultLimits()
	limits.CallerRate, limits.NamespaceRate, limits.CallerBurst, limits.NamespaceBurst = 1e6, 1e6, 1e6, 1e6
	limits.NamespaceRuns, limits.Runs = 2*callers, 2*callers
	s, err := server.New(server.Options{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Pool: f.pool, Callers: everybody{},
		Template: func(context.Context, pool.Caller, *api.RunBody) (pool.Template, error) { return template, nil },
		Limits:   limits, Drain: time.Second, Logger: hclog.NewNullLogger(), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return nil, err
	}
	var runCtx context.Context
	runCtx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() { f.done <- f.pool.Run(runCtx) }()
	go func() { f.done <- s.Run(runCtx) }()
	if err := f.dial(s.Addr().String(), ca, callers); err != nil {
		return nil, errors.Join(err, f.stop())
	}
	return f, nil
}

// dial makes the clients, each a caller of its own.
func (f *fleet) dial(address string, ca []byte, callers int) error {
	var err error
	if f.token, err = os.MkdirTemp("", "code-sandbox-load-"); err != nil {
		return err
	}
	for i := range callers {
		token := fmt.Sprintf("%s/%d", f.token, i)
		if err := os.WriteFile(token, fmt.Append(nil, "caller-", i), 0o600); err != nil {
			return err
		}
		c, err := poolclient.New(poolclient.Options{Address: address, ServerName: "pool.test", CA: ca, TokenFile: token, Self: token})
		if err != nil {
			return err
		}
		f.clients = append(f.clients, c)
	}
	return nil
}

// measure has every caller send its share, one after the other, once all are
// connected and all sandboxes warm.
func (f *fleet) measure(ctx context.Context, sheet *Sheet) error {
	if err := f.settle(ctx); err != nil {
		return err
	}
	name := fmt.Sprintf("%d warm, %d callers", f.warm, len(f.clients))
	sheet.Add(PartFleet, name+": memory of pool and clients", "MiB", float64(heap()-f.memory)/mebi)
	var mu sync.Mutex
	var all, claims []time.Duration
	var errs []error
	var wg sync.WaitGroup
	began := time.Now()
	for _, c := range f.clients {
		wg.Go(func() {
			for range max(1, fleetRuns/len(f.clients)) {
				start := time.Now()
				res, err := c.Run(ctx, &wire.Request{Code: "x", TimeoutSeconds: 30}, nil)
				took := time.Since(start)
				mu.Lock()
				if err != nil {
					errs = append(errs, err)
				} else {
					all = append(all, took)
					claims = append(claims, time.Duration((res.Timing.QueueMS+res.Timing.ClaimMS)*float64(time.Millisecond)))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	sheet.Add(PartFleet, name, "runs/s", float64(len(all))/time.Since(began).Seconds())
	sheet.AddLatency(PartFleet, name+": claim", claims)
	sheet.AddLatency(PartFleet, name+": client to client", all)
	sheet.Add(PartFleet, name+": errors", "", float64(len(errs)))
	return errors.Join(errs[:min(3, len(errs))]...)
}

func (f *fleet) settle(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(f.clients))
	places := make(chan struct{}, 16) // handshakes at once
	for i, c := range f.clients {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			errs[i] = c.Learn(ctx)
		})
	}
	wg.Wait()
	for end := time.Now().Add(20 * time.Second); f.pool.Stats().Warm < f.warm; {
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d sandboxes are warm", f.pool.Stats().Warm, f.warm)
		}
		if err := settle(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

func (f *fleet) stop() error {
	for _, c := range f.clients {
		c.Close()
	}
	f.cancel()
	err := errors.Join(<-f.done, <-f.done)
	if strings.HasPrefix(f.token, os.TempDir()) {
		err = errors.Join(err, os.RemoveAll(f.token))
	}
	return err
}

// heap is what this process holds. It waits until what was there before is given
// back: connections and goroutines of the last fleet end a moment after it, and
// a stack is freed by the collection after that.
func heap() int64 {
	var m runtime.MemStats
	for last := int64(math.MaxInt64); ; time.Sleep(50 * time.Millisecond) {
		runtime.GC()
		runtime.ReadMemStats(&m)
		now := int64(m.HeapAlloc + m.StackInuse)
		if last-now < 32<<10 {
			return now
		}
		last = now
	}
}

// selfSigned is a certificate for pool.test that is its own authority.
func selfSigned() (cert tls.Certificate, ca []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return cert, nil, err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"pool.test"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return cert, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
