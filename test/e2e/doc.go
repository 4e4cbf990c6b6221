// Package e2e is the frame that tests on a real cluster share: a namespace for
// each test, waits with a bound, and everything that is to be known of a
// failure. It is a black box: it knows the product by HTTP and the Kubernetes
// API alone. Its files have the build tag e2e, since they need the cluster of
// test/cluster: "make cluster-test" starts it and runs them.
package e2e
