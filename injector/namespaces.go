package injector

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// PolicyMap is the ConfigMap in an enrolled namespace that holds the defaults
// for its pods: the settings by their keys, without the prefix. Annotations of
// the namespace stand over it.
const PolicyMap = "code-sandbox-policy"

// directory knows the namespaces, whose labels and annotations decide.
type directory struct {
	namespaces corelisters.NamespaceLister
	policies   corelisters.ConfigMapLister
	ask        func(ctx context.Context, name string) (*corev1.Namespace, error)
}

// askBound is what a namespace that is too new for the watch may take.
const askBound = 3 * time.Second

// watchNamespaces keeps a directory until ctx ends.
func (i *Injector) watchNamespaces(ctx context.Context, wg *sync.WaitGroup) *directory {
	all := informers.NewSharedInformerFactory(i.o.Kube, 0)
	named := informers.NewSharedInformerFactoryWithOptions(i.o.Kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", PolicyMap).String()
	}))
	namespaces, policies := all.Core().V1().Namespaces(), named.Core().V1().ConfigMaps()
	d := &directory{namespaces: namespaces.Lister(), policies: policies.Lister(),
		ask: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return i.o.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		}}
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

// get returns a namespace with its policy as its annotations. The API server is
// asked for one that the watch has not seen yet.
func (d *directory) get(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := d.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		asking, cancel := context.WithTimeout(ctx, askBound)
		defer cancel()
		ns, err = d.ask(asking, name)
	}
	if err != nil {
		return nil, err
	}
	policy, err := d.policies.ConfigMaps(name).Get(PolicyMap)
	if apierrors.IsNotFound(err) {
		return ns, nil
	}
	if err != nil {
		return nil, err
	}
	return withPolicy(ns, policy.Data), nil
}

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
