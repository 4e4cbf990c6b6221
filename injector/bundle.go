package injector

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
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
// tells and it is written again.
type bundle struct {
	kube    kubernetes.Interface
	name    string // of the MutatingWebhookConfiguration
	ca      func() []byte
	metrics *metrics
	log     hclog.Logger
	// written says that the configuration was right when last seen.
	written atomic.Bool
}

const (
	// bundleEvery is how often a new authority is looked for.
	bundleEvery = 5 * time.Second
	// fieldManager owns what the injector writes.
	fieldManager = "code-sandbox-injector"
)

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
	ops := bundleOps(found.(*admissionregistrationv1.MutatingWebhookConfiguration), b.ca())
	if len(ops) == 0 {
		b.written.Store(len(b.ca()) > 0)
		return nil
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("cannot write the patch: %w", err)
	}
	patchCtx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = b.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(patchCtx, b.name, types.JSONPatchType, raw,
		metav1.PatchOptions{FieldManager: fieldManager})
	b.metrics.bundles.WithLabelValues(okOr(err)).Inc()
	if err != nil {
		return fmt.Errorf("cannot patch the MutatingWebhookConfiguration %q: %w", b.name, err)
	}
	b.written.Store(true)
	b.log.Info("certificate authority written", "webhook", b.name)
	return nil
}

// bundleOps is what makes the configuration's webhooks believe ca. The resource
// version is tested, since a webhook is named by its place in the list.
func bundleOps(c *admissionregistrationv1.MutatingWebhookConfiguration, ca []byte) []Op {
	if len(ca) == 0 {
		return nil
	}
	var ops []Op
	for i, w := range c.Webhooks {
		if !bytes.Equal(w.ClientConfig.CABundle, ca) {
			ops = append(ops, Op{"add", fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i), ca})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	return append([]Op{{"test", "/metadata/resourceVersion", c.ResourceVersion}}, ops...)
}
