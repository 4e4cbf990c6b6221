package cluster

import (
	"runtime"
	"strings"
)

// program is one build: a module, what to build of it, and how.
type program struct {
	name     string            // of its folder in the cache
	module   string            // folder in the repository
	packages []string          // none means the module's own
	file     string            // the binary, where its package does not name it
	folder   string            // below the folder of programs
	tags     string            // build tags
	ldflags  string            // beside -s -w
	cgo      bool              // needs a C compiler
	links    map[string]string // further names to the file each stands for
	changes  []change          // made in a vendored copy before the build
	inputs   []string          // patterns of files that it is made of, in its module
}

// change replaces a line of somebody else's source that does not fit here.
type change struct{ file, from, to string }

const tools = "test/cluster/tools/"

const kubernetes = "v1.37.2"

var kubeParts = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl"}

// kubeVersion is what the parts say they are: the tag, which a plain build
// does not know.
func kubeVersion() string {
	minor := strings.Split(kubernetes, ".")[1]
	return strings.Join([]string{"",
		"k8s.io/component-base/version.gitVersion=" + kubernetes,
		"k8s.io/component-base/version.gitMajor=1",
		"k8s.io/component-base/version.gitMinor=" + minor,
		"k8s.io/client-go/pkg/version.gitVersion=" + kubernetes,
	}, " -X ")
}

// programs are all that the bed runs. The small ones come first, so that what
// is wrong with a machine shows early.
func programs() []program {
	source := []string{"*.go", "go.mod", "go.sum"}
	const cni = "github.com/containernetworking/plugins/plugins/"
	const containerd = "github.com/containerd/containerd/v2/cmd/"
	const vendored = "vendor/gvisor.dev/gvisor/pkg/"
	kubeLinks := map[string]string{}
	for _, part := range kubeParts {
		kubeLinks[part] = "kube"
	}
	return []program{
		{name: "bed", module: ".", packages: []string{"./test/cluster/cmd"}, file: "bed",
			inputs: []string{"test/cluster/*.go", "test/cluster/cmd/*.go", "test/cluster/node/*.go", "test/cluster/templates/*"}},
		{name: "pause", module: tools + "pause", file: "pause", inputs: []string{"*.go", "go.mod"}},
		{name: "img", module: tools + "img", file: "img", inputs: source},
		{name: "runc", module: tools + "containerd", packages: []string{"github.com/opencontainers/runc"},
			tags: "seccomp", cgo: true, inputs: source[1:]},
		{name: "cni", module: tools + "containerd", folder: "cni", inputs: source[1:],
			packages: []string{cni + "main/ptp", cni + "main/loopback", cni + "ipam/host-local", cni + "meta/portmap"}},
		{name: "containerd", module: tools + "containerd", tags: "no_btrfs no_devmapper no_zfs", inputs: source[1:],
			packages: []string{containerd + "containerd", containerd + "containerd-shim-runc-v2", containerd + "ctr"}},
		{name: "netd", module: tools + "netd", file: "netd", inputs: source},
		{name: "gvisor", module: tools + "gvisor", packages: []string{"gvisor.dev/gvisor/runsc", "gvisor.dev/gvisor/shim"},
			links: map[string]string{"containerd-shim-runsc-v1": "shim"}, inputs: source,
			changes: []change{
				// Go 1.25 took a word out of the structure before a goroutine's number.
				{vendored + "goid/goid_123_" + runtime.GOARCH + ".s", "#define GOID_OFFSET 160 ", "#define GOID_OFFSET 152 "},
				// The shim would shield itself from the kernel's out-of-memory killer
				// and end when it may not: that takes CAP_SYS_RESOURCE.
				{vendored + "shim/service.go", `return "", fmt.Errorf("failed to set OOM Score on shim: %w", err)`, "_ = err"},
			}},
		{name: "kube", module: tools + "kube", file: "kube", ldflags: kubeVersion(), links: kubeLinks, inputs: source},
		{name: "helm", module: tools + "helm", packages: []string{"helm.sh/helm/v4/cmd/helm"}, inputs: source[1:]},
	}
}

// flags of "go build", all that decides what comes out of the sources.
func (p program) flags() []string {
	flags := []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w" + p.ldflags}
	if p.tags != "" {
		flags = append(flags, "-tags", p.tags)
	}
	if len(p.changes) > 0 {
		flags = append(flags, "-mod=vendor")
	}
	return flags
}
