package kube

// Labels that the pool sets on what it makes.
const (
	// LabelKind says what a sandbox is for: KindPython or KindCopy. NetworkPolicies select
	// sandboxes by it.
	LabelKind = "code-sandbox.dev/kind"
	// LabelCopy with the value "true" marks the copies of agents, which live beside
	// them: other policies of that namespace leave them out by it.
	LabelCopy = "code-sandbox.dev/copy"
	// LabelReplica is the pool replica that a sandbox or a Lease belongs to.
	LabelReplica = "code-sandbox.dev/replica"
	// LabelTemplate is the key of the template that a sandbox was made from.
	LabelTemplate = "code-sandbox.dev/template"
	// LabelDNS is DNSRelay for a sandbox that may look names up, else DNSNone.
	LabelDNS = "code-sandbox.dev/dns"
	// LabelEnabled with the value "true" enrols a namespace.
	LabelEnabled = "code-sandbox.dev/enabled"
	// LabelComponent tells the pool's own pods from others: ComponentPool.
	LabelComponent = "app.kubernetes.io/component"
)

// Values of the labels.
const (
	KindPython    = "python"
	KindCopy      = "copy"
	DNSRelay      = "relay"
	DNSNone       = "none"
	ComponentPool = "pool"
)

// meshLabels and meshAnnotations keep sidecars of service meshes, agents and
// secret stores out of sandboxes, each in the words of its injector.
var (
	meshLabels = map[string]string{
		"sidecar.istio.io/inject":   "false",
		"istio.io/dataplane-mode":   "none",
		"kuma.io/sidecar-injection": "disabled",
		// Datadog's admission controller.
		"admission.datadoghq.com/enabled": "false",
		// Azure's identities of workloads.
		"azure.workload.identity/use": "false",
	}
	meshAnnotations = map[string]string{
		"sidecar.istio.io/inject":                        "false",
		"linkerd.io/inject":                              "disabled",
		"consul.hashicorp.com/connect-inject":            "false",
		"kuma.io/sidecar-injection":                      "disabled",
		"dapr.io/enabled":                                "false",
		"vault.hashicorp.com/agent-inject":               "false",
		"vault.security.banzaicloud.io/mutate":           "skip",
		"eks.amazonaws.com/skip-containers":              containerName + "," + installName,
		"sidecar.opentelemetry.io/inject":                "false",
		"instrumentation.opentelemetry.io/inject-python": "false",
	}
)
