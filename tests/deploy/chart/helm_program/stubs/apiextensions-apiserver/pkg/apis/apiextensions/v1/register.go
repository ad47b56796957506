// Package v1 registers no kind.
package v1

import "k8s.io/apimachinery/pkg/runtime"

// AddToScheme adds nothing.
func AddToScheme(*runtime.Scheme) error { return nil }
