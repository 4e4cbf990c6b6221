package cluster

import (
	"strings"

	"github.com/code-sandbox/code-sandbox/test/cluster/node"
)

// shownSettings are settings of the whole machine that the kubelet would set:
// it is shown that they are as it wants.
var shownSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// nodePlan is what the node's first process is told.
func (b *Bed) nodePlan(bin, store string) node.Plan {
	return node.Plan{
		Hostname: NodeName,
		Folders: map[string]string{
			node.Work: b.work, node.Bin: bin, node.Store: store,
			"/var/lib/kubelet": b.work + "/kubelet", "/var/log": b.work + "/log",
		},
		Shown: shownSettings,
		// No name server of the machine's is asked: it would not answer, and a
		// pull of an unknown name would hang.
		Empty:    []string{"/etc/resolv.conf"},
		Network:  networkCommands(),
		Relays:   []string{NodeIP + ":6443", Registry, ""},
		Resolver: DNSIP + ":53",
		Ready: []node.Ready{
			{Name: "api", URL: apiURL + "/readyz", CA: "pki/ca.crt"},
			{Name: "registry", URL: "http://" + Registry + "/v2/"},
			{Name: "containerd", Unix: containerd},
		},
		Daemons: daemons(),
	}
}

// daemons of the node. Their folder is node.Work.
func daemons() []node.Daemon {
	return []node.Daemon{
		{Name: "world", Args: words("ip netns exec world bed world")},
		{Name: "registry", Args: words("img serve -listen " + Registry + " -store " + node.Store + " -uploads registry -images etc/images.json -private " +
			PrivateUser + ":" + PrivatePassword)},
		{Name: "etcd", Args: words(`etcd --name n --data-dir etcd --unsafe-no-fsync --log-level warn
			--listen-client-urls ` + etcdURL + ` --advertise-client-urls ` + etcdURL + `
			--listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380
			--initial-cluster n=http://127.0.0.1:2380`)},
		{Name: "containerd", Args: words("containerd --config etc/containerd.toml --log-level warn")},
		{Name: "kube-apiserver", Args: words(`kube-apiserver --etcd-servers=` + etcdURL + `
			--bind-address=` + NodeIP + ` --advertise-address=` + NodeIP + ` --secure-port=6443
			--tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key --client-ca-file=pki/ca.crt
			--kubelet-client-certificate=pki/apiserver-kubelet.crt --kubelet-client-key=pki/apiserver-kubelet.key
			--kubelet-certificate-authority=pki/ca.crt --kubelet-preferred-address-types=InternalIP
			--service-account-issuer=https://kubernetes.default.svc --service-account-key-file=pki/sa.pub
			--service-account-signing-key-file=pki/sa.key --service-cluster-ip-range=` + serviceRange + `
			--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true
			--endpoint-reconciler-type=lease --profiling=false
			--max-requests-inflight=800 --max-mutating-requests-inflight=400 --v=1`)},
		{Name: "kube-controller-manager", After: []string{"api"}, Args: words(`kube-controller-manager
			--kubeconfig=etc/controller-manager.kubeconfig --authentication-kubeconfig=etc/controller-manager.kubeconfig
			--authorization-kubeconfig=etc/controller-manager.kubeconfig --bind-address=127.0.0.1 --leader-elect=false
			--use-service-account-credentials=true --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt
			--cluster-cidr=` + podRange + ` --node-cidr-mask-size=24 --allocate-node-cidrs=true
			--service-cluster-ip-range=` + serviceRange + ` --kube-api-qps=200 --kube-api-burst=400 --v=1`)},
		{Name: "kube-scheduler", After: []string{"api"}, Args: words(`kube-scheduler --kubeconfig=etc/scheduler.kubeconfig
			--authentication-kubeconfig=etc/scheduler.kubeconfig --authorization-kubeconfig=etc/scheduler.kubeconfig
			--bind-address=127.0.0.1 --leader-elect=false --kube-api-qps=200 --kube-api-burst=400 --v=1`)},
		{Name: "kubelet", After: []string{"api", "containerd", "registry"}, Args: words(`kubelet --config=etc/kubelet.yaml
			--kubeconfig=etc/kubelet.kubeconfig --hostname-override=` + NodeName + ` --node-ip=` + NodeIP + `
			--root-dir=/var/lib/kubelet --v=1`)},
		{Name: "kube-proxy", After: []string{"api"}, Args: words("kube-proxy --config=etc/proxy.yaml --v=1")},
		// It ends until the node is known to the API server, and is started again.
		{Name: "netpol", After: []string{"api"}, Args: words(`netd netpol --kubeconfig=etc/netpol.kubeconfig
			--hostname-override=` + NodeName + ` --service-cluster-ip-range=` + serviceRange + ` --enable-ipv6=false --v=1`)},
	}
}

func words(s string) []string { return strings.Fields(s) }
