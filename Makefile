# SPDX-License-Identifier: Apache-2.0
# The commands of the project. Each installs what it needs (tools/setup), builds, and does its job.
.DEFAULT_GOAL := help
.PHONY: help run demo-sim test test-all test-vm build bench bench-live bench-web fuzz mutants lint lint-all coverage clean install wheel deb

# CC, MESON_ARGS and DESTDIR are the caller's to set.
BUILD = build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## a cluster on this machine: controller, four agents with emulated GPUs, a small workload; Ctrl-C ends it
	@tools/demo

demo-sim: build ## replay a generated week of a busy GPU cluster under several policies; leaves out/report.html
	@tools/demo-sim

test: ## unit, golden, seeds; the same under sanitizers; short fuzzing
	@tools/test

test-all: ## the same and the slow ones: published traces, more seeds, more rounds; before a release
	@tools/test --all

test-vm: ## muster installed on a Debian of its own, in a virtual machine that VM_DIR (out/vm) keeps; needs root and qemu
	@tools/vm "$${VM_DIR:-out/vm}"

build: ## build/muster and the manual pages
	@tools/setup build
	@tools/configure $(BUILD) $(MESON_ARGS)
	@tools/ninja $(BUILD)

bench: ## speed and scaling, printed
	@tools/setup build test bench
	@tools/configure $(BUILD) $(MESON_ARGS)
	@tools/ninja $(BUILD)
	@tools/bench $(BUILD)

bench-live: ## a running cluster beside Slurm; LIVE_SCALE=0.1 for a tenth of the work
	@tools/setup build bench-live
	@tools/configure $(BUILD) $(MESON_ARGS)
	@tools/ninja $(BUILD)
	@MUSTER_BUILD=$(BUILD) tests/bench/live.py
	@MUSTER_BUILD=$(BUILD) python3 tests/bench/whatif.py
	@state=$$(mktemp -d) && { $(BUILD)/tests/soak --jobs $${SOAK_JOBS:-100000} --state "$$state"; r=$$?; rm -rf "$$state"; exit $$r; }

bench-web: ## the dashboard on a thousand nodes: first paint, input, what open browsers cost
	@tools/setup build
	@tools/web-setup
	@tools/configure $(BUILD) $(MESON_ARGS)
	@tools/ninja $(BUILD)
	@MUSTER_BUILD=$(BUILD) node tests/bench/dashboard.mjs

wheel: ## the Python client as out/muster_client-*.whl; needs python3 alone
	@python3 clients/python/build_wheel.py out

deb: ## Debian packages and the client as a tarball, in out/packages
	@tools/deb

fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@tools/setup build test fuzz
	@tools/fuzz "$${FUZZ_SECONDS:-60}"

lint: ## format, layers, purity, sizes, spelling; static analysis of what differs from origin/main (LINT_BASE)
	@tools/lint

lint-all: ## the same, with static analysis of all files; before a release
	@tools/lint --all

mutants: ## does a test fail when one operator is changed? MUTANTS_COUNT (40) mutants drawn by MUTANTS_SEED (1)
	@tools/setup build test
	@tools/mutants

coverage: ## how much of each layer the tests run
	@tools/coverage

clean: ## remove what was built
	rm -rf build build-* out

install: build ## install the program and its manual pages
	meson install -C $(BUILD) --no-rebuild
