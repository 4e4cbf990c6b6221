# Included by the Makefile at the root.
LOAD_FLAGS ?=
BENCH_FLAGS ?= -benchtime 2s -count 3

.PHONY: bench soak load-check bubblewrap

## bench: benchmarks, then the measurements of docs/performance.md
bench: bubblewrap
	go test -run '^$$' -bench . $(BENCH_FLAGS) ./pool/...
	go run ./test/load/cmd $(LOAD_FLAGS)

## load-check: the measurements, failing where a promise is not kept; wants a machine that does nothing else
load-check: bubblewrap
	go run ./test/load/cmd -check $(LOAD_FLAGS)

## soak: 2,000 programs with numpy, pandas and threads; nothing may fail or leak
soak:
	go run ./test/load/cmd -parts soak -rounds 1 -check $(LOAD_FLAGS)

# The baseline that is not Python itself; from Debian.
bubblewrap:
	@command -v bwrap >/dev/null || (apt-get update -q && apt-get install -y -q --no-install-recommends bubblewrap)
