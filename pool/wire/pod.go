package wire

import "time"

// RunnerEnv is the variable that holds a pod's RunnerConfig, as JSON.
const RunnerEnv = "CODE_SANDBOX_RUNNER"

// RunnerPort is where the runner of a pod listens.
const RunnerPort = 8901

// RunnerConfig is what the runner of a pod is started with. It holds nothing
// secret: it stands in the pod's spec, which others may read.
type RunnerConfig struct {
	// SecretSHA256 is the hash, in hexadecimal, of the bearer secret that only
	// the pool knows.
	SecretSHA256 string `json:"secret_sha256"`
	Limits       Limits `json:"limits"`
	// Preload names Python modules imported before the runner is fresh.
	Preload []string `json:"preload,omitempty"`
	// Copy says that the interpreter is an agent's own, which the runner is told
	// by protocol.PreparePath; Preload, Python and Work are not used then.
	Copy bool `json:"copy,omitempty"`
	// Python is the interpreter, a path or a command; empty means python3.
	Python string `json:"python,omitempty"`
	// Isolation is told in each result: "pod", or what stands around it, such as
	// "gvisor". Empty means "pod".
	Isolation string `json:"isolation,omitempty"`
	// Life is how long the runner waits for its run; then it ends. A run has a
	// bound of its own.
	Life time.Duration `json:"life"`
	// Address is where the runner listens; empty means every address of the pod,
	// at RunnerPort.
	Address string `json:"address,omitempty"`
	// Work is the program's working directory and Temp its place for other files;
	// empty means /work and /tmp. Both must be there, writable and empty.
	Work string `json:"work,omitempty"`
	Temp string `json:"temp,omitempty"`
	// ProxyPort is where a copy with Egress finds its proxy, on 127.0.0.1; zero
	// means the constant ProxyPort.
	ProxyPort int `json:"proxy_port,omitempty"`
	// Image is what the image of a copy has in its environment: the runner itself
	// notes it before it drops it.
	Image *ImageEnv `json:"image,omitempty"`
	// Without leaves out layers of the isolation by name: "seccomp", "rlimits".
	// It exists for tests that show that each layer is needed.
	Without []string `json:"without,omitempty"`
}

// ImageEnv is the environment that an image comes with.
type ImageEnv struct {
	// Values are those that a copy may have, Names the variables of all others.
	Values map[string]string `json:"values,omitempty"`
	Names  []string          `json:"names,omitempty"`
}

// Proof asks a runner to show that it reaches nothing but what it may.
type Proof struct {
	// Canaries are addresses, IP and port, that must not answer. None at all
	// means that nothing is to be shown.
	Canaries []string `json:"canaries,omitempty"`
	// DNS says that lookups must be answered: until one is, silence of the
	// canaries shows nothing. Without it the pool's own connection has to do.
	DNS bool `json:"dns"`
	// WithinMS bounds the whole proof, in milliseconds.
	WithinMS int `json:"within_ms"`
}

// Fresh is the answer to a Proof.
type Fresh struct {
	// Fresh says that the runner has run nothing, that its interpreter waits, and
	// that the proof was given.
	Fresh bool `json:"fresh"`
	// Open names the canaries that still answered at the bound.
	Open []string `json:"open,omitempty"`
	// Writable are the places that are mounted to be written to, beside what every
	// container has.
	Writable []string `json:"writable,omitempty"`
	// Reason is a sentence when it is not fresh for another cause.
	Reason    string    `json:"reason,omitempty"`
	Proof     ProofSeen `json:"proof"`
	Preloaded []string  `json:"preloaded"`
	Python    string    `json:"python"` // its version, "3.11.2"
}

// ProofSeen says what a proof took.
type ProofSeen struct {
	Tries int     `json:"tries"` // rounds over all canaries
	MS    float64 `json:"ms"`
}
