// Package injector gives agent pods their sidecar: a mutating admission webhook
// for namespaces that are enrolled, and an audit of what it was not asked about.
// What becomes of a pod is decided by pure functions (Decide, Resolve, Mutate).
package injector
