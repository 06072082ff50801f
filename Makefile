# The front door. `make` alone lists what there is.
#
#   make serve ARGS="--max-model-len 2k" PORT=9000 MODEL=path/to/model
#   make test                 what continuous integration runs
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

export PATH := $(CURDIR)/.cache/bin:$(HOME)/.cargo/bin:$(PATH)

JOBS ?= $(shell nproc)
HOST ?= 127.0.0.1
PORT ?= 8000
ARGS ?=
DEFAULT_MODEL := models/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL ?= $(DEFAULT_MODEL)
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -p no:cacheprovider -q
CTEST := ctest --output-on-failure --no-tests=error -j $(JOBS)
FUZZ_SECONDS ?= 600
PEERS ?= llama.cpp vllm
SOAK_REQUESTS ?= 20000

# ---- everyday -----------------------------------------------------------------------------------

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: serve
serve: binary model ## build, fetch the default model, serve it (MODEL=, PORT=, HOST=, ARGS=)
	exec build/quire serve $(MODEL) --host $(HOST) --port $(PORT) $(ARGS)

.PHONY: build
build: build/build.ninja ## build everything (release) into build/
	cmake --build build -j $(JOBS)

.PHONY: test
test: checks test-unit test-dev test-neon test-e2e ## checks, unit tests (also sanitized, and for Arm), end-to-end tests
	@echo "make test: everything passed"

.PHONY: bench
bench: build model ## compare with PEERS (default: llama.cpp and vLLM, installed the first time) in one run
	scripts/install_peers.sh tools $(PEERS)
	$(PYTHON) bench/compare/compare.py $(ARGS)
	$(PYTHON) bench/compare/loading.py

.PHONY: bench-all
bench-all: build model ## the whole comparison: three real models and nine of random weights (hours; docs/benchmarks.md)
	scripts/install_peers.sh tools $(PEERS)
	$(PYTHON) bench/compare/compare.py --sections engine --models all $(ARGS)
	$(PYTHON) bench/compare/compare.py --sections start server prefix stall quality --models real $(ARGS)
	$(PYTHON) bench/compare/loading.py

.PHONY: bench-loading
bench-loading: build .venv/setup.stamp ## how fast 1 GB of bfloat16 weights loads, and the memory it takes
	$(PYTHON) bench/compare/loading.py $(ARGS)

.PHONY: lint
lint: build ## formatting, clang-tidy, the include graph, file sizes
	scripts/setup.sh lint
	scripts/format.sh --check
	$(PYTHON) scripts/check_include_dag.py
	$(PYTHON) scripts/check_file_sizes.py
	scripts/tidy.sh

.PHONY: lint-deep
lint-deep: build ## clang-tidy with its path-sensitive analyzer (an hour on two cores)
	scripts/setup.sh lint
	DEEP=1 scripts/tidy.sh

.PHONY: format
format: .venv/setup.stamp ## format the C++ sources in place
	scripts/setup.sh lint
	scripts/format.sh

.PHONY: clean
clean: ## remove what was built (models and .venv stay)
	rm -rf build build-dev build-tsan build-relassert build-fuzz build-neon build-lint

.PHONY: setup
setup: ## install what building and testing needs
	scripts/setup.sh
	@touch .venv/setup.stamp

.PHONY: model
model: $(DEFAULT_MODEL) ## fetch the default model into models/

# ---- parts of `make test` -----------------------------------------------------------------------

.PHONY: checks
checks: .venv/setup.stamp ## the include graph, file sizes, the table of models
	$(PYTHON) scripts/check_include_dag.py
	$(PYTHON) scripts/check_file_sizes.py
	$(PYTHON) scripts/check_fault_tests.py
	$(PYTHON) scripts/model_table.py --check

.PHONY: test-unit
test-unit: build ## unit tests, release build
	$(CTEST) --test-dir build

.PHONY: test-dev
test-dev: build-dev/build.ninja ## unit tests under AddressSanitizer and UBSan
	cmake --build build-dev -j $(JOBS)
	UBSAN_OPTIONS=print_stacktrace=1 $(CTEST) --test-dir build-dev

.PHONY: test-e2e
test-e2e: build model ## end-to-end tests of the built binary
	$(PYTEST) --durations=10 tests/e2e $(ARGS)

# Asked while the recipe runs, when setup may have installed them.
CROSS_TOOLS := command -v aarch64-linux-gnu-g++ && command -v qemu-aarch64 && test -d /usr/src/googletest
CAN_INSTALL := test $$(uname -m) = x86_64 && command -v apt-get && { test $$(id -u) = 0 || sudo -n true; }
.PHONY: test-neon neon-tests
test-neon: .venv/setup.stamp ## kernel tests for 64-bit Arm under qemu-user (installs its tools where it may)
	@if ! { $(CROSS_TOOLS); } >/dev/null && { $(CAN_INSTALL); } >/dev/null 2>&1; then scripts/setup.sh neon || true; fi
	@if { $(CROSS_TOOLS); } >/dev/null; then $(MAKE) --no-print-directory neon-tests; \
	else echo "test-neon: skipped; apt-get install g++-aarch64-linux-gnu qemu-user googletest for it"; fi
neon-tests:
	cmake -S tests/neon -B build-neon -G Ninja -DCMAKE_BUILD_TYPE=Release \
	  -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64-linux-gnu.cmake
	cmake --build build-neon -j $(JOBS)
	$(CTEST) --test-dir build-neon

# ---- longer ones, run before a release -----------------------------------------------------------

.PHONY: test-tsan
test-tsan: build-tsan/build.ninja ## unit tests under ThreadSanitizer
	cmake --build build-tsan -j $(JOBS)
	TSAN_OPTIONS=halt_on_error=1:suppressions=$(CURDIR)/scripts/tsan.supp $(CTEST) --test-dir build-tsan

.PHONY: test-relassert
test-relassert: build-relassert/build.ninja ## unit tests, optimized with debug checks
	cmake --build build-relassert -j $(JOBS)
	$(CTEST) --test-dir build-relassert

.PHONY: test-js
test-js: build model ## the JavaScript OpenAI SDK against the server (installs npm packages)
	scripts/setup.sh js
	cd tests/conformance/js && npm install --no-audit --no-fund --silent
	$(PYTEST) tests/e2e/sdk_js.py

CLIENTS_PYTHON := .cache/clients/venv/bin/python
.PHONY: test-clients
test-clients: binary model ## LangChain, LiteLLM, lm-eval, guidellm and schemathesis against the server (installs pip packages)
	python3 -m venv .cache/clients/venv
	$(CLIENTS_PYTHON) -m pip install -q -r tests/clients/requirements.txt
	python3 -m venv .cache/clients/guidellm
	.cache/clients/guidellm/bin/python -m pip install -q -r tests/clients/requirements-guidellm.txt
	$(CLIENTS_PYTHON) -m pytest -p no:cacheprovider -q tests/clients $(ARGS)

# Golden files exist for these; the largest is compared with its own float32 arithmetic.
LARGE_MODELS := gemma-3-270m-q4_k_m Qwen2.5-Coder-0.5B-Instruct.Q4_K_M
LARGEST_MODEL := Qwen2.5-Coder-1.5B-Instruct.Q4_K_M
.PHONY: test-large
test-large: build .venv/setup.stamp ## larger real models, against golden files or float32 (fetches 1.9 GB)
	$(PYTHON) scripts/fetch_models.py gemma3-270m qwen2.5-coder-0.5b qwen2.5-coder-1.5b
	for model in $(LARGE_MODELS); do \
	  echo "$$model:"; QUIRE_MODEL=models/$$model.gguf $(PYTEST) tests/e2e/test_golden_real.py $(ARGS); done
	QUIRE_MODEL=models/$(LARGEST_MODEL).gguf $(PYTEST) tests/e2e/large_model.py $(ARGS)
	$(PYTHON) bench/compare/loading.py --model models/$(firstword $(LARGE_MODELS)).gguf --max-ready 1.5

.PHONY: test-tokenizers
test-tokenizers: build model ## tokenizers and chat templates against the Python packages (installs pip and npm packages)
	scripts/setup.sh js
	python3 -m venv .cache/tokenizers/venv
	.cache/tokenizers/venv/bin/pip install -q tokenizers==0.23.3 transformers==5.24.0 gguf==0.19.0 jinja2==3.1.6
	.cache/tokenizers/venv/bin/python scripts/make_tokenizer_parity.py check

.PHONY: test-json-schema
test-json-schema: build/build.ninja ## answers under the schemas of the official JSON-Schema test suite validate (installs jsonschema)
	cmake --build build --target quire_grammar_samples -j $(JOBS)
	python3 -m venv .cache/json-schema/venv
	.cache/json-schema/venv/bin/pip install -q "jsonschema[format-nongpl]==4.26.0"
	.cache/json-schema/venv/bin/python scripts/json_schema_suite.py

.PHONY: fuzz
fuzz: .venv/setup.stamp ## fuzz what reads bytes from outside, FUZZ_SECONDS each (default 600)
	scripts/setup.sh fuzz
	scripts/fuzz.sh $(FUZZ_SECONDS)

.PHONY: soak
soak: build model ## SOAK_REQUESTS requests with random aborts over HTTP (default 20000)
	QUIRE_SOAK_REQUESTS=$(SOAK_REQUESTS) $(PYTEST) -rP tests/e2e/test_random_abort.py

# ---- files --------------------------------------------------------------------------------------

.venv/setup.stamp: scripts/setup.sh scripts/requirements.txt
	scripts/setup.sh
	@touch $@

$(DEFAULT_MODEL): scripts/fetch_models.py | .venv/setup.stamp
	$(PYTHON) scripts/fetch_models.py smollm2-135m
	@touch $@

build/build.ninja: CMakePresets.json | .venv/setup.stamp
	cmake --preset release
build-dev/build.ninja: CMakePresets.json | .venv/setup.stamp
	cmake --preset dev
build-tsan/build.ninja: CMakePresets.json | .venv/setup.stamp
	cmake --preset tsan
build-relassert/build.ninja: CMakePresets.json | .venv/setup.stamp
	cmake --preset relassert

# Ninja decides what is out of date.
.PHONY: binary
binary: build/build.ninja
	cmake --build build --target quire -j $(JOBS)
