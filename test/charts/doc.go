// Package charts tests the Helm charts without a cluster: what they refuse, what
// they render, how the API server's own code judges by their admission policies,
// and that their alerts and dashboard ask for metrics that the code has. It is a
// module of its own, so that the product depends neither on Helm nor on the API
// server nor on Prometheus.
package charts
