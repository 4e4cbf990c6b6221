//go:build e2e

package inject

import (
	"context"
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
)

// left is every object of the cluster that is named for us, and every one in our
// namespaces that Kubernetes has not put there itself.
func (p *platform) left(ctx context.Context) ([]string, error) {
	lists, err := discovery.ServerPreferredResources(p.system.Kube.Discovery())
	if err != nil {
		return nil, err
	}
	client, err := metadata.NewForConfig(p.system.Config)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "event") {
				continue
			}
			objects, err := client.Resource(version.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue
			}
			if err != nil {
				return nil, errors.Join(errors.New("cannot list "+r.Name), err)
			}
			for _, o := range objects.Items {
				if p.ours(o.Namespace, o.Name, r.Kind) {
					found = append(found, r.Kind+" "+o.Namespace+"/"+o.Name)
				}
			}
		}
	}
	return found, nil
}

func (p *platform) ours(namespace, name, kind string) bool {
	if namespace != p.system.Name && namespace != p.runs.Name {
		return namespace == "" && strings.HasPrefix(name, "code-sandbox")
	}
	return name != "default" && name != "kube-root-ca.crt" && kind != "PodMetrics"
}
