# A real Kubernetes cluster on this machine, for tests. Included by the Makefile
# at the root; docs/development.md says how it works. Needs root.
CLUSTER := $(GO) run ./test/cluster/cmd

.PHONY: cluster-up cluster-down cluster-test

cluster-up: ## start the test cluster and print KUBECONFIG; builds its programs when they are missing
	@$(CLUSTER) up

cluster-down: ## end the test cluster and remove what it left
	@$(CLUSTER) down

cluster-test: ## start the cluster, run its tests, end it, and fail when anything is left
	$(CLUSTER) dockerfile
	$(CLUSTER) test -- $(GO) test -tags e2e -count=1 ./test/cluster/smoke/
