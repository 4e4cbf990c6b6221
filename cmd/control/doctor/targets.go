package doctor

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// Places are what a cluster has that no sandbox may reach. What is empty is told
// as not applicable, with what to set.
type Places struct {
	APIServer string // HOST:PORT
	NodeIP    string // of any node: its kubelet is asked for
	Pod       string // HOST:PORT of a pod that listens
	Service   string // HOST:PORT of a Service in the agents' namespace
	Pool      string // the name of the pool's Service
	Internet  []string
}

// metadata are the addresses at which clouds tell a machine its credentials.
var metadata = []string{"169.254.169.254:80", "[fd00:ec2::254]:80"}

// poolPorts are those of sidecars, of metrics and health, and the canary.
var poolPorts = []string{"8443", "8902", "8903"}

// closing is what to do about any of them.
const closing = "NetworkPolicies in runs.namespace must deny it and the cluster's network must enforce them: " +
	"look at code-sandbox-default-deny and at other policies there, then at the CNI; keep network.proof on"

// Targets are all that a sandbox is to try. lookup finds the addresses of a name.
func (p Places) Targets(ctx context.Context, lookup func(ctx context.Context, host string) ([]string, error)) []Target {
	one := func(name, address, flag string) Target {
		t := Target{Name: name, Missing: "none is known: set " + flag, Change: closing}
		if address == "" {
			return t
		}
		host, port, err := net.SplitHostPort(address)
		if err == nil {
			t.Addresses, err = resolve(ctx, lookup, host, port)
		}
		if err != nil {
			t.Missing = fmt.Sprintf("%s cannot be found: %v", address, err)
		}
		return t
	}
	kubelet := ""
	if p.NodeIP != "" {
		kubelet = net.JoinHostPort(p.NodeIP, "10250")
	}
	targets := []Target{
		one("API server", p.APIServer, "--api-server"),
		one("kubelet of a node", kubelet, "--node-ip"),
		{Name: "cloud metadata", Addresses: metadata, Change: closing},
		one("another pod", p.Pod, "--pod-ip"),
		one("service of the agents' namespace", p.Service, "--service"),
		p.pool(ctx, lookup),
	}
	return append(targets, Target{Name: "internet", Addresses: p.Internet, Missing: "no address is named: set --internet", Change: closing})
}

// pool is every replica at every port.
func (p Places) pool(ctx context.Context, lookup func(context.Context, string) ([]string, error)) Target {
	t := Target{Name: "pool", Missing: "none is known: set --pool", Change: closing}
	if p.Pool == "" {
		return t
	}
	addresses, err := resolve(ctx, lookup, p.Pool, poolPorts...)
	if err != nil {
		t.Missing = fmt.Sprintf("%s cannot be found: %v", p.Pool, err)
	}
	t.Addresses = addresses
	return t
}

func resolve(ctx context.Context, lookup func(context.Context, string) ([]string, error), host string, ports ...string) ([]string, error) {
	ips, err := lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, ip := range ips {
		for _, port := range ports {
			all = append(all, net.JoinHostPort(ip, port))
		}
	}
	return all, nil
}

// Resolv is what a pod's /etc/resolv.conf says.
type Resolv struct{ Servers, Search []string }

// ReadResolv reads the text of such a file.
func ReadResolv(text string) (r Resolv) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) < 2:
		case words[0] == "nameserver":
			r.Servers = append(r.Servers, words[1])
		case words[0] == "search":
			r.Search = words[1:]
		}
	}
	return r
}

// ClusterName is a name that every pod of a cluster finds: the API server's, in
// full, since a sandbox may have no search list.
func (r Resolv) ClusterName() string {
	for _, domain := range r.Search {
		if strings.HasPrefix(domain, "svc.") {
			return "kubernetes.default." + domain
		}
	}
	return "kubernetes.default.svc.cluster.local"
}
