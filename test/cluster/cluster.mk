# A real Kubernetes cluster on this machine, for tests. Included by the Makefile
# at the root; docs/development.md says how it works. Needs root, on Debian 12.
CLUSTER := $(GO) run ./test/cluster/cmd

.PHONY: cluster-up cluster-down cluster-test cluster-runs

cluster-up: ## start the test cluster and print KUBECONFIG; builds its programs when they are missing
	@$(CLUSTER) up

cluster-down: ## end the test cluster and remove all of it but what was built
	@$(CLUSTER) down

# One package after the other: the chart can be installed once, and while it is
# nobody but its pool makes sandboxes.
cluster-test: ## start a cluster, run the tests that need one, end it, and fail when anything is left
	$(GO) test -count=1 ./test/cluster/ ./test/cluster/node/
	$(CLUSTER) dockerfile
	$(CLUSTER) test -- $(GO) test -tags e2e -p 1 -count=1 -timeout 20m ./test/cluster/smoke/ ./test/cluster/lifecycle/ ./test/e2e/inject/ ./test/e2e/readme/

# Apart from the others, since it takes longer than all of them. PARTS="gvisor kills"
# runs some of them; test/e2e/parts.sh has all.
PARTS ?=
cluster-runs: ## on a cluster, in parts: how pods as sandboxes behave, runs through agents, cases, hostile programs, kills
	$(CLUSTER) test -- sh test/e2e/parts.sh $(PARTS)
