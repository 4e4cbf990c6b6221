// Package queries holds the charts' alerts and dashboards against the language
// that they are written in and the metrics that the code has. It is a module of
// its own, so that the product does not depend on Prometheus.
package queries
