// Package dynamic declares what Helm's function `lookup` needs of a client. No client exists.
package dynamic

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Object is an object of a cluster.
type Object interface {
	UnstructuredContent() map[string]interface{}
}

// ResourceInterface reads objects of one kind.
type ResourceInterface interface {
	Get(ctx context.Context, name string, options metav1.GetOptions, subresources ...string) (Object, error)
	List(ctx context.Context, options metav1.ListOptions) (Object, error)
}

// NamespaceableResourceInterface reads objects of one kind, in all namespaces or in one.
type NamespaceableResourceInterface interface {
	Namespace(string) ResourceInterface
	ResourceInterface
}

// Interface selects a kind.
type Interface interface {
	Resource(schema.GroupVersionResource) NamespaceableResourceInterface
}

// NewForConfig fails: there is no cluster.
func NewForConfig(*rest.Config) (Interface, error) {
	return nil, errors.New("this build of Helm knows no cluster")
}
