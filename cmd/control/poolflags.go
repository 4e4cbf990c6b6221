package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/code-sandbox/code-sandbox/cmd/control/pki"
	"github.com/code-sandbox/code-sandbox/cmd/flags"
	"github.com/code-sandbox/code-sandbox/pool"
	"github.com/code-sandbox/code-sandbox/pool/egress"
	"github.com/code-sandbox/code-sandbox/pool/kube"
	"github.com/code-sandbox/code-sandbox/pool/server"
	"github.com/code-sandbox/code-sandbox/pool/wire"
)

// poolOptions are the flags of "control pool".
type poolOptions struct {
	listen, adminListen  string
	canaryListen         string
	namespace, podIP     string
	names                flags.List
	tls                  pki.FilesOptions
	caSecret             string
	certificateLife      time.Duration
	target, max          int
	inFlight             int
	copiesPerAgent       int
	copiesPerNamespace   int
	pods                 kube.PodConfig
	image, dns           string
	runnerFrom           string
	pullPolicy           string
	pullSecrets          flags.List
	preload              flags.List
	nameServers          flags.List
	nodeSelector         string
	tolerations          string
	networkProof         string
	canaries             flags.List
	egress               string
	egressPrivate        flags.List
	egressDeny           flags.List
	egressClosed         egress.Options // what these and the canaries say, and this machine
	memory, disk         flags.Size
	processes            int
	output, files        flags.Size
	maxTimeout           time.Duration
	drain, leaseDuration time.Duration
	limits               server.Limits
	audit                string
	logLevel             string
}

func parsePool(args []string) (poolOptions, error) {
	l := wire.DefaultLimits()
	o := poolOptions{memory: flags.Size(l.MemoryBytes), disk: flags.Size(l.DiskBytes), output: flags.Size(l.OutputBytes), files: flags.Size(l.FilesBytes),
		limits: server.DefaultLimits()}
	fs := flag.NewFlagSet("control pool", flag.ContinueOnError)
	o.serviceFlags(fs)
	o.podFlags(fs)
	o.limitFlags(fs, l)
	if err := flags.Parse(fs, args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("%w: %q is not a flag of control pool", flags.ErrUsage, fs.Arg(0))
	}
	return o, o.complete()
}

func (o *poolOptions) serviceFlags(fs *flag.FlagSet) {
	fs.StringVar(&o.listen, "listen", ":8443", "serve sidecars on this `address`, over TLS")
	fs.StringVar(&o.adminListen, "admin-listen", ":8902", "serve metrics, health and readiness on this `address`")
	fs.StringVar(&o.namespace, "namespace", "", "the `namespace` that the pool itself runs in, for its Secret and its Leases; required")
	fs.StringVar(&o.podIP, "pod-ip", "", "this pod's `address`, at which sandboxes must not reach --canary-listen; required unless --network-proof is off")
	fs.StringVar(&o.canaryListen, "canary-listen", ":8903", "listen here for connections that no sandbox should be able to make")
	fs.Var(&o.names, "names", "DNS `names` that sidecars know the pool by, comma-separated; required: the certificate must be for them")
	fs.StringVar(&o.tls.Cert, "tls-cert", "", "serve with the certificate in this `file`, which somebody else renews; with --tls-key and --tls-ca")
	fs.StringVar(&o.tls.Key, "tls-key", "", "the key of --tls-cert, a `file`")
	fs.StringVar(&o.tls.CA, "tls-ca", "", "whom sidecars are told to believe, a `file`: a certificate that none of them signed is not used")
	fs.StringVar(&o.caSecret, "ca-secret", "code-sandbox-ca", "without --tls-cert: the `Secret` that keeps the authority for the certificates that the pool makes")
	fs.DurationVar(&o.certificateLife, "certificate-life", 24*time.Hour, "how long a certificate is good that the pool makes for itself; it is renewed before, without a restart")
	fs.DurationVar(&o.drain, "drain", 5*time.Minute, "what runs in flight get to end when the pool stops")
	fs.DurationVar(&o.leaseDuration, "lease-duration", 30*time.Second, "how long a silent replica is taken for alive; then the others destroy its sandboxes")
	fs.StringVar(&o.audit, "audit", "", "append a record of each run to this `file`, as JSON lines; - is stdout")
	fs.StringVar(&o.logLevel, "log-level", "info", "log at this level: debug, info, warn or error")
}

func (o *poolOptions) podFlags(fs *flag.FlagSet) {
	p := &o.pods
	fs.StringVar(&p.Namespace, "runs-namespace", "code-sandbox-runs", "the `namespace` that sandboxes live in")
	fs.StringVar(&p.ServiceAccount, "runs-service-account", "code-sandbox-run", "the sandboxes' service `account`: it has no rights, and no token of it is given out")
	fs.StringVar(&o.image, "image", "", "the `image` of sandboxes, with Python in it; required")
	fs.StringVar(&p.RunnerImage, "runner-image", "", "the `image` that the runner comes from: this program's own")
	fs.StringVar(&o.runnerFrom, "runner-from", string(kube.RunnerInit), "how the runner gets into a sandbox: init (copied), volume (an image volume) or image (it is there)")
	fs.StringVar(&o.pullPolicy, "pull-policy", string(corev1.PullIfNotPresent), "when images are pulled: Always, IfNotPresent or Never")
	fs.Var(&o.pullSecrets, "pull-secrets", "`Secrets` in --runs-namespace to pull images with, comma-separated")
	fs.StringVar(&p.CPU, "cpu", "1", "processors that one sandbox may use")
	fs.StringVar(&p.CPURequest, "cpu-request", "100m", "processors that its node sets aside for it; a warm one uses none")
	fs.StringVar(&p.Python, "python", "python3", "the interpreter in the image, a path or a command")
	fs.BoolVar(&p.UserNamespace, "user-namespace", false, "give each sandbox user ids of its own on the node (hostUsers: false)")
	fs.StringVar(&p.RuntimeClass, "runtime-class", "", "run sandboxes with this RuntimeClass, such as gVisor's")
	fs.StringVar(&p.PriorityClass, "priority-class", "", "the sandboxes' PriorityClass")
	fs.StringVar(&o.nodeSelector, "node-selector", "", "labels of the nodes for sandboxes, a JSON object")
	fs.StringVar(&o.tolerations, "tolerations", "", "taints that sandboxes tolerate, a JSON list")
	fs.StringVar(&o.dns, "dns", kube.DNSRelay, "what a program can look up: relay (the cluster's resolver) or none")
	fs.Var(&o.nameServers, "name-servers", "`addresses` of resolvers for sandboxes, where the cluster's own is not the right one, comma-separated")
	fs.Var(&o.preload, "preload", "import these `modules` ahead of a run, comma-separated")
	fs.StringVar(&o.networkProof, "network-proof", "on", "on: a sandbox shows that its network is closed before it gets a program; off: it is taken on trust, and told so")
	fs.StringVar(&o.egress, "egress", "on", "on: tools reach the hosts of their grants by a proxy in this process; off: tools with grants are refused")
	fs.Var(&o.egressPrivate, "egress-private", "private `addresses`, CIDR, that a grant may open by naming one of them; without, none can be, comma-separated")
	fs.Var(&o.egressDeny, "egress-deny", "further `addresses`, CIDR, that no grant opens, such as pods and nodes with public ones, comma-separated")
	fs.Var(&o.canaries, "canaries", "further `addresses`, IP:port, that no sandbox may reach, comma-separated")
}

func (o *poolOptions) limitFlags(fs *flag.FlagSet, l wire.Limits) {
	fs.IntVar(&o.target, "target", 3, "keep this many sandboxes warm at least; demand raises it, up to --max")
	fs.IntVar(&o.max, "max", 64, "never have more than this many sandboxes, warm and running, in this replica; others wait")
	fs.IntVar(&o.copiesPerAgent, "copies-per-agent", 16, "copies that one agent pod may have for its tool calls, warm and running, in this replica; others wait")
	fs.IntVar(&o.copiesPerNamespace, "copies-per-namespace", 32, "copies that all pods of a namespace may have")
	fs.IntVar(&o.inFlight, "caller-runs", o.limits.CallerRuns, "runs that one agent pod may have in flight; one more is refused as busy")
	fs.IntVar(&o.limits.NamespaceRuns, "namespace-runs", o.limits.NamespaceRuns, "runs that all pods of a namespace may have in flight")
	fs.Float64Var(&o.limits.CallerRate, "caller-rate", o.limits.CallerRate, "runs that one agent pod may begin each second")
	fs.Float64Var(&o.limits.NamespaceRate, "namespace-rate", o.limits.NamespaceRate, "runs that all pods of a namespace may begin each second")
	fs.Var(&o.memory, "memory", "memory of one sandbox, its files included")
	fs.Var(&o.disk, "disk", "files of one sandbox: working directory, /tmp and /dev/shm together; they count as memory")
	fs.IntVar(&o.processes, "processes", l.Processes, "processes and threads of one sandbox")
	fs.Var(&o.output, "output", "kept of stdout, and again of stderr; the rest is counted and left out")
	fs.Var(&o.files, "files", "content of all files of one answer")
	fs.DurationVar(&o.maxTimeout, "max-timeout", l.MaxRun, "the longest timeout a run may ask for")
}

// complete checks the options, and reads those that are JSON.
func (o *poolOptions) complete() error {
	o.limits.CallerRuns = o.inFlight
	o.pods.RunnerFrom, o.pods.PullPolicy, o.pods.PullSecrets = kube.RunnerFrom(o.runnerFrom), corev1.PullPolicy(o.pullPolicy), o.pullSecrets
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", flags.ErrUsage, fmt.Errorf(format, args...))
	}
	for _, j := range []struct {
		flag, text string
		to         any
	}{{"node-selector", o.nodeSelector, &o.pods.NodeSelector}, {"tolerations", o.tolerations, &o.pods.Tolerations}} {
		if err := json.Unmarshal([]byte(cmp.Or(j.text, "null")), j.to); err != nil {
			return wrong("--%s is no JSON of its kind: %w", j.flag, err)
		}
	}
	switch {
	case o.namespace == "":
		return wrong("--namespace must be set")
	case o.image == "":
		return wrong("--image must be set: the image of sandboxes")
	case tlsPartly(o.tls):
		return wrong("--tls-cert, --tls-key and --tls-ca must be set all, or none")
	case len(o.names) == 0:
		return wrong("--names must be set: what the certificate is for")
	case o.certificateLife < minCertificateLife:
		return wrong("--certificate-life is %s; it must be %s or more", o.certificateLife, minCertificateLife)
	case o.dns != kube.DNSRelay && o.dns != kube.DNSNone:
		return wrong("--dns is %q; it can be relay or none", o.dns)
	case o.networkProof != "on" && o.networkProof != "off":
		return wrong("--network-proof is %q; it can be on or off", o.networkProof)
	case o.egress != "on" && o.egress != "off":
		return wrong("--egress is %q; it can be on or off", o.egress)
	case o.networkProof == "on" && net.ParseIP(o.podIP) == nil:
		return wrong("--pod-ip is %q; it must be this pod's address while --network-proof is on", o.podIP)
	case o.copiesPerAgent < 1 || o.copiesPerNamespace < o.copiesPerAgent:
		return wrong("--copies-per-agent is %d; it can be 1 to --copies-per-namespace, which is %d", o.copiesPerAgent, o.copiesPerNamespace)
	case o.target < 1 || o.target > o.max:
		return wrong("--target is %d; it can be 1 to --max, which is %d", o.target, o.max)
	}
	if err := o.closeEgress(); err != nil {
		return wrong("%w", err)
	}
	if len(o.nameServers) > 0 {
		o.pods.DNSPolicy, o.pods.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: o.nameServers}
	}
	if err := o.template().Limits.Validate(); err != nil {
		return wrong("%w", err)
	}
	return nil
}

// template is what every run gets.
func (o *poolOptions) template() pool.Template {
	l := wire.DefaultLimits()
	l.MemoryBytes, l.DiskBytes, l.FilesBytes = int64(o.memory), int64(o.disk), int64(o.files)
	l.OutputBytes, l.Processes, l.MaxRun = int(o.output), o.processes, o.maxTimeout
	l.DiskFiles = 0 // no volume of a pod counts them
	return pool.Template{Image: o.image, Preload: o.preload, Limits: l, DNS: o.dns}
}

// driver is the options of the driver but for what only a cluster gives.
func (o *poolOptions) driver() kube.Options {
	d := kube.Options{Pods: o.pods, NoNetworkProof: o.networkProof == "off", LeaseDuration: o.leaseDuration}
	if d.NoNetworkProof {
		return d
	}
	d.Canaries = o.canaries
	if host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"); host != "" && port != "" {
		d.Canaries = append([]string{net.JoinHostPort(host, port)}, d.Canaries...)
	}
	if _, port, err := net.SplitHostPort(o.canaryListen); err == nil {
		d.CanaryListen, d.CanaryAddress = o.canaryListen, net.JoinHostPort(o.podIP, port)
	}
	return d
}
