package cluster

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// configFiles are the files below the work folder, and their templates.
var configFiles = map[string]string{
	"etc/containerd.toml":                     "containerd.toml",
	"etc/runsc.toml":                          "runsc.toml",
	"etc/certs.d/" + Registry + "/hosts.toml": "hosts.toml",
	"etc/cni/10-pods.conflist":                "pods.conflist",
	"etc/kubelet.yaml":                        "kubelet.yaml",
	"etc/proxy.yaml":                          "proxy.yaml",
	"etc/system.yaml":                         "system.yaml",
}

// writeConfig fills in the configuration of every daemon, and the list of the
// images that the registry has from the start.
func (b *Bed) writeConfig(images map[string]string) error {
	v := b.values(references(images))
	all, err := template.New("").Option("missingkey=error").ParseFS(templates, "templates/*")
	if err != nil {
		return fmt.Errorf("cannot read the templates: %w", err)
	}
	for path, name := range configFiles {
		var text bytes.Buffer
		if err := all.ExecuteTemplate(&text, name, v); err != nil {
			return fmt.Errorf("cannot fill in %q: %w", name, err)
		}
		if err := writeFile(filepath.Join(b.work, path), text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("cannot write %q: %w", path, err)
		}
	}
	tagged := map[string]string{}
	for name, digest := range images {
		tagged[name+":latest"] = digest
	}
	raw, err := json.Marshal(tagged)
	if err != nil {
		return fmt.Errorf("cannot write the list of images: %w", err)
	}
	return writeFile(filepath.Join(b.work, "etc", "images.json"), raw, 0o644)
}

// references turns name → digest into name → what a pod pulls.
func references(images map[string]string) map[string]string {
	refs := map[string]string{}
	for name, digest := range images {
		refs[name] = strings.Join([]string{Registry, "/", name, "@", digest}, "")
	}
	return refs
}
