# `make help` explains each target. Everything lives in .venv; nothing else on the machine is touched (but for test-tools).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.ready-dev
LOCK   := uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11
CHECK_PYTHON := import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Say which to use: make PYTHON=python3.12 …")

.DEFAULT_GOAL := help
.PHONY: help demo test soak audit-dependencies test-tools lint types format lock wheel clean

help:  ## explain each target
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY)  ## watch the main job: a simulated town, a real Kafka and Valkey, true "safe" answers (Python alone is needed)
	@$(BIN)/location-monitor demo

test: $(DEV) lint types  ## run every check: lint, types and all tests, on real servers that the tests start
	$(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder

soak: $(DEV)  ## run what takes long: wider enumerations, hours of faults, and mutmut
	$(BIN)/pytest -m soak
	$(BIN)/python tests/mutants/mutation.py

audit-dependencies: $(READY)  ## compare all pinned dependencies with the published advisories (needs the network; says so if there is none)
	@$(BIN)/python tests/security/audit_dependencies.py

test-tools:  ## install Debian's Redis and Prometheus, further real servers to test with (needs apt-get and root)
	deploy/test-tools.sh

lint: $(DEV)  ## check style and common mistakes (ruff)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(DEV)  ## check types strictly (mypy)
	$(BIN)/mypy

format: $(DEV)  ## rewrite the code in the house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(DEV)  ## pin every dependency anew, with hashes: all, those of the container, those of its build (needs uv)
	$(LOCK) --upgrade --extra embedded --extra experiments --extra dev pyproject.toml -o requirements.lock
	$(LOCK) -c requirements.lock pyproject.toml -o requirements-run.lock
	grep -o 'hatchling>=[0-9.]*' pyproject.toml | head -n 1 | $(LOCK) -c requirements.lock - -o requirements-build.lock
	sed -i '1i # Every dependency, pinned with its hashes (make lock). pip reads it; it names no index.' requirements.lock
	sed -i '1i # What `run` needs, as in requirements.lock (make lock): for the container.' requirements-run.lock
	sed -i '1i # What builds the wheel, as in requirements.lock (make lock): for the container.' requirements-build.lock

wheel: $(DEV)  ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

clean:  ## remove the virtual environment and all caches
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	@echo "Making a virtual environment in $(VENV) (once) …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(READY)
	@touch $@
