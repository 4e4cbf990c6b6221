# A real Kubernetes cluster on this machine, for tests. Included by the Makefile
# at the root; docs/development.md says how it works. Needs root, on Debian 12.
CLUSTER := $(GO) run ./test/cluster/cmd

.PHONY: cluster-up cluster-down cluster-test

cluster-up: ## start the test cluster and print KUBECONFIG; builds its programs when they are missing
	@$(CLUSTER) up

cluster-down: ## end the test cluster and remove all of it but what was built
	@$(CLUSTER) down

# One package after the other: the chart can be installed once, and while it is
# nobody but its pool makes sandboxes.
cluster-test: ## start a cluster, run every test that needs one, end it, and fail when anything is left
	$(GO) test -count=1 ./test/cluster/ ./test/cluster/node/
	$(CLUSTER) dockerfile
	$(CLUSTER) test -- $(GO) test -tags e2e -p 1 -count=1 -timeout 20m ./test/cluster/smoke/ ./test/cluster/lifecycle/ ./test/e2e/... ./pool/kube/
