# The test cluster: a real Kubernetes on this machine. docs/development.md
CLUSTER := $(GO) run ./test/cluster/cmd

.PHONY: cluster-up cluster-down cluster-test

cluster-up: ## start the test cluster and print its KUBECONFIG; needs root, on Debian 12
	@$(CLUSTER) up

cluster-down: ## end the test cluster and remove all of it but what was built
	@$(CLUSTER) down

cluster-test: ## start a cluster, run every test that needs one, end it, check that nothing is left
	@$(CLUSTER) dockerfile
	@$(CLUSTER) test -- $(GO) test -count=1 -tags e2e -timeout 20m ./test/cluster/smoke/ ./test/cluster/lifecycle/ ./test/e2e/...
