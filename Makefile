# One command per task: `make help` lists them. Needs make and a Python of at least 3.11, nothing else.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# The limit per test only ends a test that hangs: the first test also compiles, and a busy machine is slow. By thread: a
# signal waits for the kernel to return, which a hanging kernel never does.
# One worker more than cores, because tests with brokers mostly wait; each worker loads all kernels, which costs more
# than it gains beyond that. tests/scheduling.py decides which worker runs which test. ARGS=-n0 runs the tests one by one.
WORKERS = $(shell $(BIN)/python -c 'import os; print(len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else os.cpu_count() + 1)')
PYTEST = $(BIN)/python -m pytest --timeout=1800 --timeout-method=thread -n $(WORKERS)
# The interpreter that .venv is made with; left empty, the first one found that is new enough.
PYTHON ?=
# Locks are resolved by the oldest supported Python: what it can install, the newer ones can too.
LOCK_PYTHON ?= python3.11
WITH_BROKERS := tests/contract tests/integration
# Tests that add nothing without the compiler. First those that never enter a kernel: connectors, files, formulas, the
# slow twins. Then those that read tables or run jobs and commands with some engine: the kernels have tests of their own,
# which run the same lines.
COMPILED_ONLY := tests/contract tests/reference tests/unit/checkpoint tests/unit/config tests/unit/connectors
COMPILED_ONLY += tests/unit/telemetry tests/unit/privacy/test_sdgs.py
COMPILED_ONLY += $(addprefix tests/unit/test_,deploy.py drawing.py import_contract.py language.py pre_commit.py)
COMPILED_ONLY += $(addprefix tests/unit/,cli jobs judge lab testing test_examples.py test_first_job.py)
COMPILED_ONLY += $(filter-out tests/recovery/test_restore.py,$(wildcard tests/recovery/test_*.py))
# Left out of `make quick`: whole commands, experiments, audits, pages of documentation.
QUICK := not slow and not integration and not soak and not statistical and not compiled
NOT_QUICK := $(addprefix tests/unit/,cli lab judge/audit judge/game judge/sweep)
NOT_QUICK += $(addprefix tests/unit/test_,examples.py first_job.py readme.py)
# Handed on to the command: make test ARGS="-k split -x", make bench ARGS=--help, make lock ARGS=--upgrade
ARGS ?=

# The real data sets, where they lie beside the repository; without them the tests that need them skip, and say so.
ifndef CASTLEGUARD_DATA
ifneq ($(wildcard ../shared/data),)
export CASTLEGUARD_DATA := $(abspath ../shared/data)
endif
endif

# The broker of the integration tests: fetched once for each version, beside the compiled kernels.
KAFKA_POM := tests/integration/kafka/pom.xml
KAFKA_CACHE := $(or $(CASTLEGUARD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/castleguard)
KAFKA_JARS := $(KAFKA_CACHE)/kafka/$(shell sed -n '/kafka_2.13/,/version/s|.*<version>\(.*\)</version>.*|\1|p' $(KAFKA_POM))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Otherwise each of the processes that tests start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup installed demo test quick test-nojit test-integration crash soak kafka kafka-if-possible bench instructions reproduce lint format types imports language ci clean lock

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: installed ## make the environment in .venv and compile the kernels; the other commands do what they need
	@$(BIN)/castleguard warmup

installed: $(VENV)/.installed
	@:

demo: installed ## anonymise a made-up stream and show what was promised
	@$(BIN)/castleguard demo $(ARGS)

test: installed ## run the test suite, compiled, on all cores
	@$(PYTEST) $(ARGS)

quick: installed ## run the fast tests, for while you work
	@cold=$$($(BIN)/python -m tests.warming); \
		if [ $$cold = 1 ]; then echo "The kernels are not compiled, and run as plain Python; 'make test' compiles them."; fi; \
		HYPOTHESIS_PROFILE=quick NUMBA_DISABLE_JIT=$$cold $(PYTEST) tests/unit -m "$(QUICK)" $(NOT_QUICK:%=--ignore=%) $(ARGS)

test-nojit: installed ## run the test suite with the kernels as plain Python
	@NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=nojit $(PYTEST) -m "not compiled and not integration" $(COMPILED_ONLY:%=--ignore=%) $(ARGS)

test-integration: installed ## run the tests that start brokers and processes, compiled
	@$(PYTEST) $(WITH_BROKERS) $(ARGS)

crash: installed kafka ## kill jobs 200 times for each sink and mode, and check what they published (takes hours)
	@CASTLEGUARD_KILLS=$${CASTLEGUARD_KILLS:-200} $(BIN)/python -m pytest -v tests/integration/test_crash_*.py $(ARGS)

soak: installed kafka-if-possible ## run the checks that CI runs briefly in full (takes hours)
	@CASTLEGUARD_SOAK=1 $(BIN)/python -m pytest -v -m soak $(ARGS)

kafka: $(KAFKA_JARS)/.complete ## fetch the Kafka broker that the integration tests start (needs Java 17 and Maven)
	@:

# Without them, tests that need the broker are skipped.
kafka-if-possible:
	@if command -v mvn > /dev/null && command -v java > /dev/null; then $(MAKE) kafka; else echo "no Maven or no Java: no Kafka"; fi

bench: installed ## measure throughput and information loss
	@$(BIN)/python -m benchmarks.run $(ARGS)

instructions: installed ## count the instructions of a fixed workload; fails if 5 % above benchmarks/instructions.json
	@$(BIN)/python -m benchmarks.instructions --check $(ARGS)

reproduce: installed ## repeat the experiments of the four papers, and write docs/results (takes up to half an hour)
	@$(BIN)/castleguard reproduce --output docs/results $(ARGS)

lint: installed ## check style and layout with ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

format: installed ## format the code, and fix what ruff can fix
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: installed ## check the types with mypy
	@$(BIN)/mypy

imports: installed ## check that imports point down only
	@$(BIN)/lint-imports --no-logo

language: installed ## count the words that CONTRIBUTING.md asks to avoid; fails above the limit in tests/language.py
	@$(BIN)/python -m tests.language --count $(ARGS)

ci: export HYPOTHESIS_PROFILE := ci
ci: lint types imports kafka-if-possible test test-nojit instructions demo ## everything that must pass before a change lands

clean: ## remove the environment, caches and build products
	@rm -rf $(VENV) build dist src/*.egg-info .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

lock: ## resolve requirements/ again; ARGS=--upgrade takes newer releases
	@$(LOCK_PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || \
		{ echo "make lock needs Python 3.11, the oldest supported one: set LOCK_PYTHON=..." >&2; exit 1; }
	@$(LOCK_PYTHON) -m venv --clear build/lock
	@build/lock/bin/pip install --quiet pip-tools==7.6.2
	@$(COMPILE) --output-file requirements/runtime.txt pyproject.toml
	@$(COMPILE) --extra dev --extra learn --extra plot --extra spark --constraint requirements/runtime.txt --output-file requirements/dev.txt pyproject.toml

# --no-emit-options keeps local settings (indexes, folders of wheels) out of the files.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" build/lock/bin/pip-compile --quiet --generate-hashes --allow-unsafe \
	--strip-extras --no-emit-options $(ARGS)

$(KAFKA_JARS)/.complete: $(KAFKA_POM)
	@mvn --quiet --batch-mode --file $(KAFKA_POM) \
		org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=$(KAFKA_JARS)
	@touch $@

# A changed lock rebuilds the environment, so that removed packages are gone.
$(VENV)/.locked: requirements/dev.txt
	@python='$(PYTHON)'; \
	new_enough='import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))'; \
	for candidate in $${python:-python3.13 python3.12 python3.11 python3 python}; do \
		if $$candidate -c "$$new_enough" 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "No Python of at least 3.11 with venv found (tried: $${python:-python3.13 python3.12 python3.11 python3 python})." >&2; \
		echo "Install one, or name it: make setup PYTHON=/path/to/python" >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$found --version); the first time this downloads its packages."; \
	$$found -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.locked pyproject.toml
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
