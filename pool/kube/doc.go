// Package kube makes sandboxes of pods on a Kubernetes cluster.
//
// What a pod is, what a status means and what is an orphan are pure functions
// (podspec.go, networkpolicies.go, readback.go, status.go, orphans.go); the
// Driver acts. A run goes over one connection to the pod's runner, made before
// the pod is claimed: on its path nothing is written to the API server.
package kube
