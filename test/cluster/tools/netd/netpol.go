package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/spf13/pflag"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// enforce keeps the node's packet filter as the NetworkPolicies want it, until
// it is told to stop.
func enforce() error {
	config := options.NewKubeRouterConfig()
	config.AddFlags(pflag.CommandLine)
	pflag.Parse()
	client, err := connect(config)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	beats := make(chan *healthcheck.ControllerHeartbeat, 16)
	go drain(beats)
	controller, err := newController(client, config, stop)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Add(1) // the controller calls Done
	go controller.Run(beats, stop, &wg)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
	close(stop)
	wg.Wait()
	return nil
}

func connect(config *options.KubeRouterConfig) (kubernetes.Interface, error) {
	rest, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("cannot read %q: %w", config.Kubeconfig, err)
	}
	return kubernetes.NewForConfig(rest)
}

func newController(client kubernetes.Interface, config *options.KubeRouterConfig, stop <-chan struct{}) (*netpol.NetworkPolicyController, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the packet filter: %w", err)
	}
	c, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, new(sync.Mutex), tables, sets)
	if err != nil {
		return nil, fmt.Errorf("cannot make the controller: %w", err)
	}
	handlers := map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: c.PodEventHandler, namespaces: c.NamespaceEventHandler, policies: c.NetworkPolicyEventHandler,
	}
	for informer, handler := range handlers {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("cannot watch: %w", err)
		}
	}
	return c, nil
}

// drain takes the beats of a health check that nobody asks for here.
func drain(beats <-chan *healthcheck.ControllerHeartbeat) {
	for range beats {
	}
}
