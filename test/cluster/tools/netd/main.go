// Command netd is the node's network beside kube-proxy: the cluster's DNS
// (CoreDNS with a handful of plugins) and the enforcement of NetworkPolicy
// (kube-router's controller for it, without the rest of kube-router, which
// would take minutes more to compile).
package main

import (
	"fmt"
	"os"

	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	part := os.Args[1]
	os.Args = append(os.Args[:1], os.Args[2:]...)
	switch part {
	case "coredns":
		coremain.Run()
	case "netpol":
		if err := enforce(); err != nil {
			fmt.Fprintln(os.Stderr, "netpol:", err)
			os.Exit(1)
		}
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: netd coredns|netpol ...")
	os.Exit(2)
}
