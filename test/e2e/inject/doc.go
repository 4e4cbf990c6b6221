// Package inject tests the charts and the injector on a real cluster: agents of
// every kind get their sidecar and use it, and nothing else changes for anybody.
package inject
