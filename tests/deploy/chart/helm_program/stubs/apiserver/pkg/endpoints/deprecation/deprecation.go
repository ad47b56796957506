// Package deprecation is never asked, because the scheme of this build contains no kind.
package deprecation

import "k8s.io/apimachinery/pkg/runtime"

// IsDeprecated returns false.
func IsDeprecated(runtime.Object, int, int) bool { return false }

// WarningMessage returns no message.
func WarningMessage(runtime.Object) string { return "" }
