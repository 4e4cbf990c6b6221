package cluster

// image is what goes into an image, and how a container of it starts.
type image struct {
	name       string
	layers     []layer
	entrypoint []string
	cmd        []string
	user       string
	workdir    string
	env        []string // beside PATH
	volumes    []string
}

// layer is one tar file, made of one or more of these in this order.
type layer struct {
	name     string
	debian   []string          // packages; what they depend on comes with them
	wheels   string            // file with requirements from PyPI, in the folder "images"
	source   bool              // CPython compiled for musl
	mains    []string          // Go programs of this repository, put into /usr/local/bin
	programs []string          // programs of the bed, put into /
	files    map[string]string // path to content
	folders  map[string]string // path to a folder of this repository
	keep     []string          // of /usr/bin and /usr/sbin, when not all
}

const baked = "BAKED_FILE=sk-e2e-baked-into-a-file\n"

const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// The product's own programs, those of them that exist in this checkout.
var productMains = []string{"cmd/code-sandbox", "cmd/control", "cmd/sidecar", "cmd/runner"}

var accounts = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/home/app:/bin/sh\n" +
		"nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n",
	"etc/group": "root:x:0:\napp:x:1000:\nnonroot:x:65532:\nnogroup:x:65534:\n",
}

var (
	debianPython = layer{name: "debian-python", files: accounts,
		debian: []string{"base-files", "netbase", "dash", "coreutils", "grep", "sed", "libstdc++6", "python3"}}
	// As images without a distribution are: an interpreter, its libraries, and
	// neither a shell nor any other program.
	barePython = layer{name: "bare-python", files: accounts, keep: []string{"python3", "python3.11"},
		debian: []string{"base-files", "netbase", "python3"}}
	muslPython = layer{name: "musl-python", files: accounts, debian: []string{"musl"}, source: true}
	// A program that looks for credentials, beside those that were left in the image.
	huntProgram = layer{name: "hunt", files: map[string]string{
		"home/app/tools.py": huntSource, "home/app/.env": baked, "home/app/deep/er/.env.prod": baked, "home/app/.ENV/keys": baked,
		"home/app/certs/TLS.key": baked, "home/app/.cache/token": baked, "home/nonroot/.aws/credentials": baked}}
	science    = layer{name: "science", wheels: "python.txt"}
	frameworks = layer{name: "frameworks", wheels: "frameworks.txt"}
	// What agents' authors put into their images: their code, and by mistake a key.
	agentCode = layer{name: "agent-code", folders: map[string]string{"app": "test/cluster/images/agent"}}
	agentDemo = layer{name: "agent-demo", folders: map[string]string{"app": "docs/examples/demo"}}
)

// imageList is every image that the cluster has from the start. The product's
// mains are those that exist.
func imageList(mains []string) []image {
	python := []string{"python3"}
	return []image{
		{name: "pause", layers: []layer{{name: "pause", programs: []string{"pause"}}}, entrypoint: []string{"/pause"}, user: "65535:65535"},
		{name: "netd", layers: []layer{{name: "netd", programs: []string{"netd"}}}, entrypoint: []string{"/netd"}},
		{name: "probe", layers: []layer{{name: "probe", mains: []string{"test/cluster/probe"}}},
			entrypoint: []string{"/usr/local/bin/probe"}, user: "65532:65532"},
		{name: "code-sandbox", layers: []layer{{name: "code-sandbox", mains: mains}},
			entrypoint: []string{"/usr/local/bin/code-sandbox"}, user: "65532:65532"},
		{name: "python", layers: []layer{debianPython, science}, cmd: python, user: "65532:65532"},
		// Agents, as people make them.
		{name: "agent-python", layers: []layer{debianPython}, cmd: python, user: "1000:1000", workdir: "/home/app"},
		{name: "agent-hunt", layers: []layer{debianPython, huntProgram}, cmd: python, user: "1000:1000", workdir: "/home/app",
			env: []string{"BAKED_KEY=sk-e2e-baked-into-the-image", "LOG_LEVEL=info"},
			// By itself, inside of a folder that sandboxes write to, and inside of one that is hidden from them.
			volumes: []string{"/data", "/tmp/cache", "/home/app/.cache/models"}},
		{name: "agent-framework", layers: []layer{debianPython, frameworks}, cmd: python, user: "1000:1000", workdir: "/home/app"},
		{name: "agent-code", layers: []layer{debianPython, frameworks, agentCode}, cmd: python, user: "1000:1000", workdir: "/app",
			env: []string{"PYTHONPATH=/app/lib", "BAKED_API_KEY=sk-e2e-baked-0123456789abcdef"}},
		{name: "agent-demo", layers: []layer{debianPython, agentDemo}, cmd: []string{"python3", "agent.py"}, user: "1000:1000", workdir: "/app"},
		{name: "agent-bare", layers: []layer{barePython}, entrypoint: []string{"/usr/bin/python3"}, user: "65532:65532"},
		{name: "agent-named", layers: []layer{debianPython}, cmd: python, user: "app", workdir: "/home/app"},
		{name: "agent-root", layers: []layer{debianPython}, cmd: python},
		{name: "agent-musl", layers: []layer{muslPython}, cmd: python, user: "1000:1000"},
	}
}
