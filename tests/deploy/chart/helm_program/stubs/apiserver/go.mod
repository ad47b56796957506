module k8s.io/apiserver

go 1.24.0
