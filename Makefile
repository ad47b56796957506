# `make help` explains each target. Everything is installed into .venv. Only test-tools changes the machine outside it.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
DEV    := $(VENV)/.ready-dev
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
LOCK   := $(BIN)/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-annotate --no-header --python-version 3.11
BY_FILE := --dist loadfile --no-loadscope-reorder
CHECK_PYTHON := import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, found " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 …")

# pytest rewrites the assertions of all test files. It keeps the result only if Python may write compiled files.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo unit one check proof test test-with-servers test-without-servers soak versions bench docs audit-dependencies test-tools lint types chart-schemas go-programs cluster kafka-classes format lock wheel dist clean

help:  ## explain each target
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY)  ## run the service on a simulated town, with its own Kafka and Valkey (only Python is needed)
	@$(BIN)/location-monitor demo
	@echo "To see the page that the public sees: $(BIN)/location-monitor demo --page"

unit: $(DEV)  ## run the fast tests, without servers
	$(BIN)/pytest -m "not servers and not long and not soak" --numprocesses 2 $(BY_FILE)

one: $(DEV)  ## run one test, file or folder and show its output: make one T=tests/…/test_….py::test_…
	@test -n "$(T)" || { echo "make one: set T to a test, for example T=tests/records/test_visits.py" >&2; exit 2; }
	$(BIN)/pytest -m "" -vv --capture=no $(T)

check: lint types  ## check style and types: what the pre-commit hook runs

proof: $(DEV)  ## let Coq check the proofs in docs/proof, and compare them with the program (installs Coq if apt-get can)
	@deploy/test-tools.sh coq
	$(BIN)/pytest -m "" -vv --capture=no tests/privacy/test_proof.py

test: export TMPDIR := $(or $(TMPDIR),$(shell tests/temporary_folder.sh),/tmp)
test: $(DEV)  ## run every check: lint, types and all tests, on real servers that the tests start
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target kafka-classes go-programs
	@# Tests with servers often wait. Everything else only computes, in the processor time that they leave.
	@$(MAKE) --no-print-directory --jobs=2 test-with-servers test-without-servers
	@# These keep several services with slots of two seconds on time, so nothing else runs, and fewer of them at once.
	$(BIN)/pytest tests/faults -m "servers and not soak" --numprocesses 3 $(BY_FILE) --reruns 1

test-with-servers: $(DEV)
	@# Each process collects the files that it is given, and only a quarter of all files have such tests.
	$(BIN)/pytest -m "servers and not soak" --ignore=tests/faults --collect-only -q >$(VENV)/server-tests
	@# The longest files begin first, because no other process can help with a file at the end.
	@files=$$(sed -n 's/::.*//p' $(VENV)/server-tests | uniq); \
		{ grep -l 'mark\.long' $$files; grep -L 'mark\.long' $$files; } >$(VENV)/server-files
	$(BIN)/pytest -m "servers and not soak" --numprocesses 6 $(BY_FILE) --reruns 1 @$(VENV)/server-files

test-without-servers: $(DEV)
	@nice -n 19 $(MAKE) --no-print-directory check
	@# Beside servers each test may take four times as long as alone. The output would mix with that of the other tests.
	@status=0; nice -n 19 $(BIN)/pytest -m "not servers and not soak" --numprocesses 2 $(BY_FILE) --timeout 1200 \
		>$(VENV)/tests-without-servers 2>&1 || status=$$?; cat $(VENV)/tests-without-servers; exit $$status

soak: $(DEV)  ## run the tests that take hours: wider enumerations, long fault runs, mutmut, and other versions of servers
	$(BIN)/pytest -m soak
	$(BIN)/python tests/mutants/mutation.py
	@$(MAKE) --no-print-directory versions

versions: $(DEV)  ## run the protocol tests on other versions of Kafka, Redis and Valkey, and write docs/supported.md (needs Debian)
	$(BIN)/python -m tests.versions

cluster: $(DEV)  ## install the chart on the cluster that KUBECONFIG names, kill, drain and change it, and count the ticks (20 minutes)
	$(BIN)/python -m tests.engines.cluster

bench: $(READY)  ## measure the service against its goals, and next to Flink SQL (5 minutes, on a machine that does nothing else)
	$(BIN)/python -m simulators bench --out simulators/bench/measured.json --document docs/scaling.md

docs: $(DEV)  ## build the documentation into build/docs; every warning is an error (no network is needed)
	$(BIN)/python -m sphinx -q -W --keep-going -n -j auto -c docs . build/docs

audit-dependencies: $(READY)  ## compare all pinned dependencies with the published advisories (needs the network)
	@$(BIN)/python tests/security/audit_dependencies.py

test-tools:  ## install Debian's Redis, Prometheus, Alertmanager, Chromium, a Japanese font, buildah, runc and Coq, which some tests need (needs apt-get and root)
	deploy/test-tools.sh

lint: $(DEV)  ## check style and common mistakes (ruff)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(DEV)  ## check types (mypy, strict)
	$(BIN)/mypy

chart-schemas: $(DEV)  ## check the chart with the published schemas of Strimzi, KEDA and the Prometheus operator (needs Go, and the network once)
	$(BIN)/pytest -m "" -rA tests/deploy/chart/test_schemas.py

kafka-classes: $(DEV)  ## archive Kafka's classes once, so that the tests' brokers start in half the time
	@$(BIN)/python -m monitor.operate.servers

go-programs:  ## compile Helm, toxiproxy and actionlint once, for the tests (needs Go)
	@$(PYTHON) -m tests.go_programs

format: $(DEV)  ## fix the style in place (ruff)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock: $(DEV)  ## pin all dependencies again, with hashes
	$(LOCK) --upgrade --extra embedded --extra page --extra experiments --extra docs --extra dev pyproject.toml -o requirements.lock
	$(LOCK) -c requirements.lock --extra page pyproject.toml -o requirements-run.lock
	grep -o 'hatchling>=[0-9.]*' pyproject.toml | head -n 1 | $(LOCK) -c requirements.lock - -o requirements-build.lock
	echo 'uv>=0.9,<1' | $(LOCK) - -o requirements-install.lock
	echo 'pip-audit>=2.10,<3' | $(LOCK) - -o requirements-audit.lock
	sed -i '1i # Every dependency, pinned with its hashes (make lock). It names no index.' requirements.lock
	sed -i '1i # What `run` needs, as in requirements.lock (make lock): for the container.' requirements-run.lock
	sed -i '1i # What builds the wheel, as in requirements.lock (make lock): for the container.' requirements-build.lock
	sed -i '1i # uv, which installs the other locks (make lock). pip reads this one.' requirements-install.lock
	sed -i '1i # pip-audit, which compares the other locks with the advisories (make lock). Only the audit installs it.' requirements-audit.lock

wheel: $(DEV)  ## build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

dist: $(DEV)  ## build the files of a release twice, compare them, and run demo from the wheel in a new environment
	$(BIN)/python -m deploy.dist.build --try

clean:  ## remove the virtual environment and all caches
	rm -rf $(VENV) .node dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml requirements.lock requirements-install.lock
	@$(PYTHON) -c '$(CHECK_PYTHON)'
	@echo "Creating a virtual environment in $(VENV) …"
	@# --clear: an environment of another Python is replaced, not mixed with.
	@$(PYTHON) -m venv --clear $(VENV)
	@# uv needs a third of pip's processor time. pip remains for platforms without uv, and for indexes that only pip knows.
	@# Python compiles a module when it is first imported, so the many that nothing imports need not be compiled.
	@{ $(PIP) --require-hashes -r requirements-install.lock \
	    && $(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock; } \
	    || { echo "uv could not install the packages; pip installs them …"; $(PIP) --require-hashes -r requirements.lock; }
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(DEV): $(READY)
	@touch $@
