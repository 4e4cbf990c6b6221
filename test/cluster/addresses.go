package cluster

import "github.com/code-sandbox/code-sandbox/test/cluster/node"

// Addresses of the cluster. They exist in the node's network namespace alone,
// so that two clusters on one machine may both have them.
const (
	NodeName = "node"
	NodeIP   = "10.241.0.2"      // the node: API server, kubelet, registry
	Registry = NodeIP + ":5000"  // as pods and containerd name it
	WorldIP  = "203.0.113.10"    // stands for the internet; port 80 answers
	MetaIP   = "169.254.169.254" // stands for a cloud's metadata server; port 80 answers
	APIIP    = "10.96.0.1"       // the API server, as pods name it
	DNSIP    = "10.96.0.10"
)

// Who pulls from the registry's repositories below "private/".
const (
	PrivateUser     = "puller"
	PrivatePassword = "sk-e2e-of-the-registry"
)

const (
	podRange     = "10.244.0.0/24"
	podGateway   = "10.244.0.1"
	serviceRange = "10.96.0.0/16"
	apiURL       = "https://" + NodeIP + ":6443"
	etcdURL      = "http://127.0.0.1:2379"
	containerd   = "/run/containerd/containerd.sock"
	maxPods      = 110
	podPids      = 256
)

// values are what the templates of configuration files are filled with.
type values struct {
	Node, NodeIP, Registry, PodRange, PodGateway, DNSIP, WorldIP string
	Work, Bin, Socket, Cgroup, Pause, DNS                        string
	MaxPods, PodPids                                             int
}

func (b *Bed) values(images map[string]string) values {
	return values{
		Node: NodeName, NodeIP: NodeIP, Registry: Registry, PodRange: podRange, PodGateway: podGateway,
		DNSIP: DNSIP, WorldIP: WorldIP, Work: node.Work, Bin: node.Bin, Socket: containerd,
		Cgroup: b.name, Pause: images["pause"], DNS: images["netd"], MaxPods: maxPods, PodPids: podPids,
	}
}
