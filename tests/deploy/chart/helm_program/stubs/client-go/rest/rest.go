// Package rest stands in for the client of a Kubernetes cluster, which the tests of the chart do not have.
package rest

// Config would be the address of a cluster.
type Config struct{}
