package injector

// Prefix begins every label and annotation of Code Sandbox.
const Prefix = "code-sandbox.dev/"

// The public contract: what people may write on namespaces and pods. A key is
// never given another meaning; helm/agent-namespace lists them all for readers.
const (
	// LabelEnabled on a namespace, with the value "true", enrols it.
	LabelEnabled = Prefix + "enabled"
	// LabelKind marks sandbox pods. Only the pool may set it.
	LabelKind = Prefix + "kind"

	// KeyInject on a pod: "false" leaves the pod alone.
	KeyInject = Prefix + "inject"
	// KeyContainers on a pod names the containers that get the tool-call hook,
	// separated by commas. Without it all do.
	KeyContainers = Prefix + "containers"
	// KeyPythonPath on a pod is the PYTHONPATH that its images set: a variable
	// in a pod replaces that of the image, which nobody sees at admission.
	KeyPythonPath = Prefix + "pythonpath"

	// KeyInjected is written by the injector: the image of the sidecar.
	KeyInjected = Prefix + "injected"
	// KeyPolicy is written by the injector: what was in force for the pod when
	// it was admitted, as JSON. The pool follows it.
	KeyPolicy = Prefix + "policy"
)

// podKeys are the annotations of pods that are no part of the policy.
var podKeys = []string{KeyInject, KeyContainers, KeyPythonPath, KeyInjected, KeyPolicy}

// Names in an injected pod.
const (
	SidecarName = "code-sandbox-sidecar"
	HookName    = "code-sandbox-hook"
	TokenVolume = "code-sandbox-token"
	HookVolume  = "code-sandbox-hook"
)

// The prefix of the variables that the sidecar and the hook read, and one of them.
const (
	variables = "CODE_SANDBOX_"
	poolCA    = variables + "POOL_CA"
)

// Where the sidecar listens.
const (
	apiPort   = 8900
	adminPort = 8902
)
