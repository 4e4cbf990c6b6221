package injector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// bundle keeps the certificate authority in the webhook's configuration: the
// API server believes nobody else. The chart does not know it and leaves it
// out, so that an upgrade takes it from nobody; when somebody does, the watch
// tells and it is written again. All replicas do so, and agree: one that finds
// what it does not know reads anew what they share, before it writes, and what it
// does not know then it leaves for a while, since replicas of before and after an
// upgrade may share nothing.
type bundle struct {
	kube    kubernetes.Interface
	name    string // of the MutatingWebhookConfiguration
	ca      func() []byte
	refresh func(context.Context) error
	limit   *rate.Limiter
	metrics *metrics
	log     hclog.Logger
	// grace is how long a certificate that we do not know stays, strangers when
	// each was first seen.
	grace     time.Duration
	strangers map[string]time.Time
	// conflicts came one after the other.
	conflicts int
	// written says that the configuration was right when last seen.
	written atomic.Bool
}

const (
	// bundleEvery is how often a new authority is looked for.
	bundleEvery = 5 * time.Second
	// fieldManager owns what the injector writes.
	fieldManager = "code-sandbox-injector"
	// bundleBurst writes may follow each other, then one every bundleEvery.
	bundleBurst = 5
	// strangerGrace is what a replica of before an upgrade gets to go. One that is
	// still there then writes itself down again, and has it anew.
	strangerGrace = time.Minute
)

func newBundle(o Options, m *metrics) *bundle {
	return &bundle{kube: o.Kube, name: o.Webhook, ca: o.CA, refresh: o.Refresh, limit: rate.NewLimiter(rate.Every(bundleEvery), bundleBurst),
		metrics: m, log: o.Logger.Named("bundle"), grace: strangerGrace, strangers: map[string]time.Time{}}
}

// run writes until ctx ends. What fails is tried again.
func (b *bundle) run(ctx context.Context) {
	changed := make(chan struct{}, 1)
	kick := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(b.kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", b.name).String()
	}))
	informer := factory.Admissionregistration().V1().MutatingWebhookConfigurations().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { kick() }, UpdateFunc: func(any, any) { kick() }, DeleteFunc: func(any) { kick() }})
	if err != nil {
		panic("BUG: an informer that takes no handler: " + err.Error())
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	tick := time.NewTicker(bundleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-tick.C:
		}
		if !informer.HasSynced() {
			continue
		}
		if err := b.sync(ctx, informer.GetStore()); err != nil && ctx.Err() == nil {
			b.log.Error("cannot write the certificate authority", "error", err)
		}
	}
}

func (b *bundle) sync(ctx context.Context, store cache.Store) error {
	found, ok, err := store.GetByKey(b.name)
	if err != nil || !ok {
		b.written.Store(false)
		return errors.Join(fmt.Errorf("there is no MutatingWebhookConfiguration %q", b.name), err)
	}
	webhook := found.(*admissionregistrationv1.MutatingWebhookConfiguration)
	b.written.Store(believes(webhook, b.ca()))
	if b.news(webhook) || len(patchOf(webhook, b.whom(webhook, time.Now())).Webhooks) > 0 {
		return b.write(ctx, webhook)
	}
	return nil
}

// write reads anew what replicas share, and puts right what is wrong with the
// webhook as it was seen. What is there may be another replica's, which has read
// what they share after us: only what is read after the webhook was seen is newer
// than all that was written into it.
func (b *bundle) write(ctx context.Context, webhook *admissionregistrationv1.MutatingWebhookConfiguration) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := b.refresh(ctx); err != nil {
		return fmt.Errorf("cannot read anew the authority that replicas share: %w", err)
	}
	now := time.Now()
	patch := patchOf(webhook, b.whom(webhook, now))
	if len(patch.Webhooks) == 0 {
		b.written.Store(believes(webhook, b.ca()))
		return nil
	}
	if !b.limit.Allow() {
		return b.fight()
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("cannot write the patch: %w", err)
	}
	_, err = b.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(ctx, b.name, types.StrategicMergePatchType, raw,
		metav1.PatchOptions{FieldManager: fieldManager})
	if apierrors.IsConflict(err) {
		return b.conflict()
	}
	b.conflicts = 0
	b.metrics.bundles.WithLabelValues(okOr(err)).Inc()
	if err != nil {
		return fmt.Errorf("cannot patch the MutatingWebhookConfiguration %q: %w", b.name, err)
	}
	b.written.Store(true)
	b.forget(now)
	b.log.Info("certificate authority written", "webhook", b.name)
	return nil
}

// conflict is a write of somebody's between our look and ours: another replica's,
// mostly. The watch tells what is there now, or else the next look does.
func (b *bundle) conflict() error {
	b.metrics.bundles.WithLabelValues("conflict").Inc()
	b.log.Debug("somebody was faster", "webhook", b.name)
	if b.conflicts++; b.conflicts > bundleBurst {
		return b.fight()
	}
	return nil
}

// fight is the error of somebody who does not let us have our way.
func (b *bundle) fight() error {
	return fmt.Errorf("somebody changes the MutatingWebhookConfiguration %q again and again: leave its caBundle to the injector", b.name)
}

// believes says whether the API server takes all of our certificates for good.
func believes(c *admissionregistrationv1.MutatingWebhookConfiguration, ca []byte) bool {
	return !slices.ContainsFunc(c.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool {
		return !within(string(ca), string(w.ClientConfig.CABundle))
	})
}

// bundlePatch is a strategic merge patch, which names webhooks. It holds for one
// version of the configuration: of another, there is a conflict.
type bundlePatch struct {
	Metadata versioned      `json:"metadata"`
	Webhooks []webhookPatch `json:"webhooks"`
}

type versioned struct {
	ResourceVersion string `json:"resourceVersion"`
}

type webhookPatch struct {
	Name         string       `json:"name"`
	ClientConfig clientConfig `json:"clientConfig"`
}

type clientConfig struct {
	CABundle []byte `json:"caBundle"`
}

// patchOf is what makes the configuration's webhooks believe ca; it has none where
// all do.
func patchOf(c *admissionregistrationv1.MutatingWebhookConfiguration, ca []byte) bundlePatch {
	patch := bundlePatch{Metadata: versioned{c.ResourceVersion}}
	for _, w := range c.Webhooks {
		if len(ca) > 0 && !same(string(w.ClientConfig.CABundle), string(ca)) {
			patch.Webhooks = append(patch.Webhooks, webhookPatch{w.Name, clientConfig{ca}})
		}
	}
	return patch
}
