package injector

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// PolicyMap is the ConfigMap in an enrolled namespace that holds the defaults
// for its pods: the settings by their keys, without the prefix. Annotations of
// the namespace stand over it.
const PolicyMap = "code-sandbox-policy"

// What is looked up, as the counter names it.
const (
	objectNamespace = "namespace"
	objectPolicy    = "policy"
)

// directory knows the namespaces, whose labels and annotations decide. A watch
// has them; where it says that one is not enrolled or has no policy, the API
// server is asked: it may have been enrolled a moment ago.
type directory struct {
	namespaces corelisters.NamespaceLister
	policies   corelisters.ConfigMapLister
	namespace  *lookup[*corev1.Namespace]
	// stranger asks for names that the watch does not know. It has a rate of its
	// own: who makes names up takes no answer from a pod of a namespace that is.
	stranger *lookup[*corev1.Namespace]
	// policy answers nil where there is none.
	policy  *lookup[*corev1.ConfigMap]
	metrics *metrics
	log     hclog.Logger
}

// watchNamespaces keeps a directory until ctx ends.
func (i *Injector) watchNamespaces(ctx context.Context, wg *sync.WaitGroup) *directory {
	all := informers.NewSharedInformerFactory(i.o.Kube, 0)
	named := informers.NewSharedInformerFactoryWithOptions(i.o.Kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", PolicyMap).String()
	}))
	namespaces, policies := all.Core().V1().Namespaces(), named.Core().V1().ConfigMaps()
	d := newDirectory(i.o.Kube, namespaces.Lister(), policies.Lister(), i.metrics, i.o.Logger)
	synced := []cache.InformerSynced{namespaces.Informer().HasSynced, policies.Informer().HasSynced}
	all.StartWithContext(ctx)
	named.StartWithContext(ctx)
	wg.Go(func() {
		i.synced.Store(cache.WaitForCacheSync(ctx.Done(), synced...))
		<-ctx.Done()
		all.Shutdown()
		named.Shutdown()
	})
	return d
}

func newDirectory(kube kubernetes.Interface, namespaces corelisters.NamespaceLister, policies corelisters.ConfigMapLister, m *metrics, log hclog.Logger) *directory {
	limit := rate.NewLimiter(lookupRate, lookupBurst)
	namespace := func(ctx context.Context, name string) (*corev1.Namespace, error) {
		return kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	}
	return &directory{namespaces: namespaces, policies: policies, metrics: m, log: log,
		namespace: newLookup(limit, namespace), stranger: newLookup(rate.NewLimiter(strangerRate, strangerBurst), namespace),
		policy: newLookup(limit, func(ctx context.Context, name string) (*corev1.ConfigMap, error) {
			found, err := kube.CoreV1().ConfigMaps(name).Get(ctx, PolicyMap, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil, nil
			}
			return found, err
		})}
}

// get returns a namespace with its policy as its annotations. With fresh the
// watch is not believed at all.
func (d *directory) get(ctx context.Context, name string, fresh bool) (*corev1.Namespace, error) {
	ns, err := d.namespaces.Get(name)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	ask := d.namespace
	if err != nil {
		ask = d.stranger
	}
	if known := err == nil && enrolls(ns); fresh || !known {
		ns, err = ask.of(ctx, name)
		if err = d.looked(objectNamespace, name, err, err == nil && !known && enrolls(ns)); err != nil {
			return nil, err
		}
	}
	if !enrolls(ns) {
		return ns, nil // its policy is of no matter
	}
	policy, err := d.policies.ConfigMaps(name).Get(PolicyMap)
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if known := err == nil; fresh || !known {
		policy, err = d.policy.of(ctx, name)
		if err = d.looked(objectPolicy, name, err, err == nil && !known && policy != nil); err != nil {
			return nil, err
		}
	}
	if policy == nil {
		return ns, nil
	}
	return withPolicy(ns, policy.Data), nil
}

// looked counts what came of a lookup, and tells of a watch that is behind.
func (d *directory) looked(object, namespace string, err error, lagged bool) error {
	result := lookupKnown
	switch {
	case err != nil:
		result, err = lookupFailed, fmt.Errorf("cannot ask the API server for its %s: %w", object, err)
	case lagged:
		result = lookupLagged
		d.log.Warn("the watch is behind the API server", "object", object, "namespace", namespace)
	}
	d.metrics.lookups.WithLabelValues(object, result).Inc()
	return err
}

// enrolls says whether the pods of a namespace get a sidecar.
func enrolls(ns *corev1.Namespace) bool { return ns.Labels[LabelEnabled] == "true" }

// withPolicy is the namespace with settings as annotations, where it has none.
func withPolicy(ns *corev1.Namespace, settings map[string]string) *corev1.Namespace {
	ns = ns.DeepCopy()
	had := ns.Annotations
	ns.Annotations = map[string]string{}
	for key, value := range settings {
		ns.Annotations[Prefix+key] = value
	}
	maps.Copy(ns.Annotations, had)
	return ns
}
