# Measurements. Included by the Makefile at the root.
LOAD_FLAGS ?=
BENCH_FLAGS ?= -benchtime 2s -count 3

.PHONY: bench load-check soak cluster-load bubblewrap

bench: bubblewrap ## benchmarks, then the measurements of docs/performance.md (LOAD_FLAGS="-parts open,closed")
	$(GO) test -run '^$$' -bench . $(BENCH_FLAGS) ./pool/... ./injector/
	$(GO) run ./test/load/cmd $(LOAD_FLAGS)

load-check: bubblewrap ## the measurements, failing where a promise is not kept; wants an idle machine
	$(GO) run ./test/load/cmd -check $(LOAD_FLAGS)

soak: ## 2,000 programs with numpy, pandas and threads: none may fail, nothing may leak
	$(GO) run ./test/load/cmd -parts soak -rounds 1 -check $(LOAD_FLAGS)

cluster-load: ## measurements on the test cluster, beside plain pods (LOAD_FLAGS="-parts warm,cold -rounds 5")
	$(CLUSTER) test -- $(GO) run ./test/load/cluster/cmd $(LOAD_FLAGS)

bubblewrap: # a baseline, from Debian
	@command -v bwrap >/dev/null || (apt-get update -q && apt-get install -y -q --no-install-recommends bubblewrap)
