# Two commands do everything on a fresh machine with Go: make run, make test.
GO ?= go
LINT_VERSION := v2.15.0
LINT := $(HOME)/.cache/code-sandbox/bin/golangci-lint-$(LINT_VERSION)
UNIT := ./cmd/... ./injector/... ./pool/... ./sidecar/... ./toolproxy/... ./test/arch/ ./test/load/

.PHONY: help run demo build check test unit lint charts cases frameworks frameworks-cases cgroup2 clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## serve run_python on localhost:8900; ARGS="--target 5" passes flags
	@sh test/setup.sh run
	@$(GO) build -o bin/code-sandbox ./cmd/code-sandbox
	@exec bin/code-sandbox local $(ARGS)

build: ## build bin/code-sandbox
	$(GO) build -o bin/code-sandbox ./cmd/code-sandbox

demo: build ## a model's text reads the agent's key, without us and under us
	@echo "Without Code Sandbox:"
	@cd docs/examples/demo && OPENAI_API_KEY=sk-demo-0123456789abcdef python3 agent.py
	@echo "\nUnder code-sandbox local --summary --tool-functions 'tools:*' -- python3 agent.py:"
	@cd docs/examples/demo && OPENAI_API_KEY=sk-demo-0123456789abcdef ../../../bin/code-sandbox local --summary --tool-functions 'tools:*' -- python3 agent.py

check: ## the quick inner loop: format, vet, unit tests
	@test -z "$$(gofmt -l cmd injector pool sidecar test toolproxy)" || { gofmt -l cmd injector pool sidecar test toolproxy; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet -tags e2e ./...
	$(GO) test $(UNIT)

lint: $(LINT) ## golangci-lint
	$(LINT) run --build-tags e2e ./...
	cd test/charts && $(LINT) run --build-tags e2e ./...

$(LINT):
	@mkdir -p $(@D)/new && GOBIN=$(abspath $(@D))/new $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv $(@D)/new/golangci-lint $@ && rmdir $(@D)/new

unit: ## unit tests with the race detector
	$(GO) test -race $(UNIT)

charts: ## the Helm charts: values, what they render, rights, alerts, README
	cd test/charts && $(GO) vet -tags e2e . && $(GO) test -count=1 .

# One after the other: the hostile programs of one would take the CPU from another's.
cases: ## the cases from the field, agents and hostile programs, against the real service
	$(GO) test -p 1 -count=1 ./test/cases/ ./test/escape/ ./test/agents/

cgroup2: ## the tests of memory limits and of shares of the processors in another kernel, with cgroups of version 2 (User-mode Linux, 41 MB from Debian)
	sh test/cgroup2/run.sh

frameworks: build ## agents of real frameworks, their tool calls sandboxed; the hook on every Python here
	/usr/bin/python3 test/frameworks/run.py --service bin/code-sandbox $(FRAMEWORKS)

# Core and all frameworks when it is empty; FRAMEWORKS="core mcp" runs some.
FRAMEWORKS :=

frameworks-cases: build ## the examples and the named cases of the frameworks beyond the first five
	/usr/bin/python3 test/frameworks/run.py --service bin/code-sandbox -k "test_example or test_t" $(FURTHER)

FURTHER := crewai llama_index google_adk anthropic strands smolagents

test: ## everything, but of the frameworks beyond the first five the examples and named cases
	@sh test/setup.sh test
	$(MAKE) --no-print-directory check lint unit charts cases
	$(MAKE) --no-print-directory frameworks FRAMEWORKS="core openai_agents langchain pydantic_ai mcp fastmcp"
	$(MAKE) --no-print-directory frameworks-cases
	$(MAKE) --no-print-directory cluster-test

include test/load/load.mk test/cluster/cluster.mk

clean: ## remove what was built here
	rm -rf bin
