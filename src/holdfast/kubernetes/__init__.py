"""A small client of the Kubernetes API: kubeconfig, requests, and what is known of the kinds of a cluster."""
