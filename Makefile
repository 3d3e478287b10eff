# Two commands for a newcomer: `make run` and `make test`. The rest is for those who work here.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
NODE := tests/compat/node
NODE_CLIENTS := $(NODE)/node_modules/.package-lock.json
AXE := tests/console/axe
AXE_CORE := $(AXE)/node_modules/.package-lock.json
QUIX := tests/compat/quix
QUIX_VENV := .venv-quix
AZURITE := tests/compat/azurite
AZURITE_SERVER := $(AZURITE)/node_modules/.package-lock.json
READERS := tests/compat/readers
READERS_VENV := .venv-readers

.PHONY: help fairness run test test-all compiled wheels image-steps check format docs screenshots bench compat node-clients console-axe quix-client table-readers azure-store fuzz crash sim site clean

help:
	@echo "make run     the main job on real input: broker, flights, Spark, table"
	@echo "make test    every quick test, and a part of the slow ones, another at each commit: make test [PART=7]"
	@echo "make test-all  every test: the quick ones, then the slow ones, and which of them took long"
	@echo "make compiled  the package compiled, as a wheel has it, and the quick tests with it"
	@echo "make wheels  wheels with the compiled broker, a pure one and an sdist, checked, in dist/"
	@echo "make image-steps  the steps of release/Dockerfile, without a container engine"
	@echo "make check   format, lint, types, import contracts, tidy"
	@echo "make docs    write the documents that are made from the code"
	@echo "make screenshots  take the console's pictures for the documents again; needs Chromium"
	@echo "make bench   measure, print a table"
	@echo "make compat  what others wrote for Kafka, against ottla serve: test suites, and sessions of clients"
	@echo "make fuzz    garbage for all that reads what a peer sends, guided by coverage: make fuzz SECONDS=600"
	@echo "make fairness  that nothing holds others up: the largest request of each API, and state that has grown a lot"
	@echo "make crash   the crash loops at length, and trials of real clients against a broker that is killed: make crash SECONDS=600"
	@echo "make sim     one simulated run, of a consumer group by default: make sim SEED=7 [PROTOCOL=consumer|transactions|readers|cluster|kraft|replicas|tiers|quorum]; of clusters also SEED=0-9999"
	@echo "make site    the documents as a web site, in build/site"
	@echo "make clean   remove the environment and the demo's data"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "ottla needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 2; }
	@test -x $(BIN)/python || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@# Groups of dependencies are read by pip 25.1 and later.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	@echo "installing ottla and what its demo and tests need (first time: a few minutes)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e . --group dev
	@touch $@

run: $(READY)
	@$(BIN)/python -m examples.flights

# Hundreds of tests start a process: what is imported is compiled once, whatever the host's default.
test test-all: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)
	$(BIN)/python -m pytest -n 3 --dist worksteal --part $(or $(PART),commit)

test-all: $(READY)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" --durations 10
	$(BIN)/python -m pytest -n 4 --dist worksteal -m slow --durations 40

# An editable install leaves the broker as Python; the package index's users get it compiled.
# `make compiled WHEEL=dist/...` takes it from a wheel of this tree.
COMPILED := build/compiled

$(COMPILED)/.ready: setup.py pyproject.toml $(shell find src -name '*.py') | $(READY)
	@echo "compiling the package (two minutes)"
	@rm -rf build
	@PYTHONPATH= $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $(COMPILED) $(or $(WHEEL),.)
	@touch $@

compiled: $(COMPILED)/.ready
	PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest -q -n 2 -o pythonpath=. -m "not slow" --compiled tests/unit tests/integration tests/golden

# PYTHONS="python3.11 python3.12": by default every one on PATH, or of pyenv's, that Ottla runs on.
wheels:
	@$(PYTHON) release/wheels.py $(PYTHONS)

# release/Dockerfile, followed without a container engine; `make wheels` first.
image-steps:
	@$(PYTHON) release/follow_dockerfile.py

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/tidy
	$(BIN)/python -m pytest -q -m "not slow" tests/docs

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(READY)
	$(BIN)/python -m docs.generate

screenshots: $(READY)
	$(BIN)/python -m tests.console.screenshots

site: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group site
	@$(BIN)/zensical build --strict -f mkdocs.yml
	@echo "the documents are in build/site: open build/site/index.html, or, for the search too,"
	@echo "python3 -m http.server -d build/site, and http://localhost:8000"

bench: $(COMPILED)/.ready
	@$(BIN)/python -m benchmarks

# Also what `make test-all` needs to hold sessions with clients for Node.
node-clients: $(NODE_CLIENTS)

$(NODE_CLIENTS): $(NODE)/package-lock.json
	@command -v npm >/dev/null || { echo "the clients for Node need node (20 or newer) and npm"; exit 2; }
	@cd $(NODE) && npm ci --omit=optional --no-audit --no-fund --loglevel=error

# What `make test-all` looks for faults of access in the console's pages with; it also needs Chromium.
console-axe: $(AXE_CORE)

$(AXE_CORE): $(AXE)/package-lock.json
	@command -v npm >/dev/null || { echo "axe-core comes with npm, of node 20 or newer"; exit 2; }
	@cd $(AXE) && npm ci --no-audit --no-fund --loglevel=error

# An object store that speaks as Azure's does, for tests of tables in one.
azure-store: $(AZURITE_SERVER)

$(AZURITE_SERVER): $(AZURITE)/package-lock.json
	@command -v npm >/dev/null || { echo "Azurite comes with npm, of node 20 or newer"; exit 2; }
	@cd $(AZURITE) && npm ci --omit=optional --no-audit --no-fund --loglevel=error

# Quix Streams needs an older confluent-kafka than the other tests.
quix-client: $(QUIX_VENV)/.ready

$(QUIX_VENV)/.ready: $(QUIX)/requirements.txt
	@$(PYTHON) -m venv $(QUIX_VENV)
	@$(QUIX_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $(QUIX)/requirements.txt
	@touch $@

# DuckDB's extensions are of an older DuckDB than the tests have, and the jar with Iceberg of an older Spark.
table-readers: $(READERS_VENV)/.ready

$(READERS_VENV)/.ready: $(READERS)/requirements.txt
	@$(PYTHON) -m venv $(READERS_VENV)
	@$(READERS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $(READERS)/requirements.txt
	@touch $@

compat: $(READY) $(NODE_CLIENTS) quix-client table-readers
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group compat
	$(BIN)/python -m tests.compat.suites.kafka_python_suite
	$(BIN)/python -m tests.compat.suites.kafka_python_suite --three-brokers
	OTTLA_SUITE_CLUSTER=quorum $(BIN)/python -m tests.compat.suites.kafka_python_suite --three-brokers
	$(BIN)/python -m tests.compat.suites.old_kafka_python_suite
	$(BIN)/python -m tests.compat.suites.pykafka_suite
	$(BIN)/python -m tests.compat.suites.librdkafka_suite
	$(BIN)/python -m tests.compat.suites.librdkafka_suite --three-brokers
	OTTLA_SUITE_CLUSTER=quorum $(BIN)/python -m tests.compat.suites.librdkafka_suite --three-brokers
	$(BIN)/python -m tests.compat.suites.no_kafka_suite
	$(BIN)/python -m tests.compat.suites.node_rdkafka_suite
	$(BIN)/python -m tests.compat.suites.kafka_go_suite
	$(BIN)/python -m tests.compat.suites.sarama_suite
	$(BIN)/python -m tests.compat.suites.sarama_suite --three-brokers
	OTTLA_SUITE_CLUSTER=quorum $(BIN)/python -m tests.compat.suites.sarama_suite --three-brokers
	$(BIN)/python -m tests.compat.suites.sarama_sessions
	$(BIN)/python -m tests.compat.suites.sarama_sessions --three-brokers
	OTTLA_SUITE_CLUSTER=quorum $(BIN)/python -m tests.compat.suites.sarama_sessions --three-brokers
	$(BIN)/python -m tests.compat.suites.confluent_kafka_go_suite
	$(BIN)/python -m tests.compat.suites.testssl_suite
	$(BIN)/python -m pytest -q tests/compat

fuzz: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60)

fairness: $(READY)
	$(BIN)/python -m benchmarks stretches growth

crash: $(READY)
	$(BIN)/python -m pytest -q tests/crash tests/histories tests/simulation tests/spark tests/unit/broker/log_jobs/test_checkpoints_beyond_the_end.py tests/unit/runtime/test_interrupts.py tests/unit/loading tests/unit/mirror/test_overtaken.py tests/unit/storage/reading/test_overtaking.py tests/integration/loading/test_follow.py tests/integration/benchmarks tests/property/test_tables_changed_by_others.py tests/compat/test_debezium.py --crash-seconds $(or $(SECONDS),600)

sim: SEED ?= 0
sim: $(READY)
	@$(BIN)/python -m tests.simulation $(SEED) $(PROTOCOL)

clean:
	rm -rf $(VENV) build dist demo-data $(NODE)/node_modules $(AXE)/node_modules $(AZURITE)/node_modules $(QUIX_VENV) $(READERS_VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
