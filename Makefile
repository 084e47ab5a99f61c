# What people type. `make` alone lists it.

PYTHON := .venv/bin/python
# Tests start hundreds of Python processes: they should not compile the project each time, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
PIP := sh scripts/pip-install.sh

.DEFAULT_GOAL := help
.PHONY: help setup run run-cluster .spark-in-background demo test compat check simulate torture soak mutants bench bench-clients bench-keys bench-spark requirements messages wheel clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/base-installed ## install what a broker needs into .venv
	@echo "Set up. 'make run' starts a broker."

run: .venv/base-installed .spark-in-background ## start a broker: dashboard, API, engine, schedules
	@exec $(PYTHON) manage.py broker

run-cluster: .venv/base-installed .spark-in-background ## start GLASSMQ_BROKERS brokers (3) under one name server, one dashboard for all
	@exec $(PYTHON) manage.py broker --cluster

demo: .venv/base-installed ## give a running broker something to do
	@exec $(PYTHON) manage.py demo

test: .venv/dev-installed .venv/spark-installed ## run every test (installs what they need)
	@sh scripts/install-test-tools.sh
	@sh scripts/compile-tests.sh
	$(PYTHON) -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

compat: .venv/dev-installed ## stock Java and Go clients and mqadmin against GlassMQ and Apache RocketMQ 5.4.0
	@sh scripts/install-test-tools.sh
	$(PYTHON) -m pytest -v --compat tests/compat $(PYTEST_ARGS)

simulate: .venv/dev-installed ## a cluster of clients in one thread, 200 seeds: no wake-up may be lost
	$(PYTHON) -m pytest -q -n auto tests/simulation --seeds 200

torture: .venv/dev-installed ## the long proofs: kills, power cuts, frames, full disks, silent clients (hours)
	@sh scripts/install-test-tools.sh
	$(PYTHON) -m tests.torture.seeds --what power-cuts --count 10000
	$(PYTHON) -m tests.torture.seeds --what wake-ups --count 100000
	$(PYTHON) -m tests.torture.kills --cycles 500
	$(PYTHON) -m tests.torture.frames --frames 10000000
	$(PYTHON) -m tests.torture.full_disk --fillings 20
	$(PYTHON) -m pytest -v --torture -m torture tests/spark_jobs tests/torture
	$(PYTHON) -m pytest -q tests/bridge/test_channel_port.py -k "idle or longer" --idle-seconds 150
	$(PYTHON) -m pytest -q -n auto tests/broker_core/store/test_crashes.py tests/simulation --seeds 1000
	$(PYTHON) -m pytest -q tests/broker_core/remoting/test_frame_decoder.py -k spoiled --seeds 10
	$(PYTHON) -m pytest -q -n auto tests/broker_core/server/test_spoiled_requests.py --seeds 50
	$(PYTHON) -m pytest -q -n auto --hypothesis-profile=torture tests/api tests/broker_core tests/simulation
	$(PYTHON) -m benchmarks.silent_readers

HOURS := 1
soak: .venv/dev-installed ## a broker at half load for HOURS (1): memory, descriptors and tasks must be flat
	$(PYTHON) -m tests.torture.load --hours $(HOURS)

mutants: .venv/dev-installed .venv/spark-installed ## seed defects one by one in copies of the tree: a test must find each
	$(PYTHON) -m tests.mutants $(MUTANTS)

bench: .venv/dev-installed ## measure: engine, whole tables, running broker, recovery, where the engine runs, dashboards
	cd benchmarks && ../$(PYTHON) engine_wakeup.py
	$(PYTHON) -m benchmarks.whole_tables
	cd benchmarks && ../$(PYTHON) filters.py
	cd benchmarks && ../$(PYTHON) web.py
	cd benchmarks && ../$(PYTHON) recovery.py
	cd benchmarks && ../$(PYTHON) engine_process.py
	$(PYTHON) -m benchmarks.attach dispatch
	$(PYTHON) -m benchmarks.dashboard page
	$(PYTHON) -m benchmarks.dashboard engine
	@echo; echo "'make bench-clients' measures with RocketMQ's own client, and Apache RocketMQ 5.4.0 beside GlassMQ."

bench-clients: .venv/dev-installed ## measure with the stock Java client: GlassMQ and Apache RocketMQ 5.4.0 in turn (an hour)
	@sh scripts/install-test-tools.sh
	$(PYTHON) benchmarks/remoting_wakeup.py --compare
	$(PYTHON) benchmarks/lost_wakeups.py --compare
	$(PYTHON) benchmarks/remoting_throughput.py --compare
	$(PYTHON) benchmarks/pop.py --compare
	$(PYTHON) benchmarks/transactions.py --compare
	$(PYTHON) benchmarks/client.py --compare

bench-keys: .venv/dev-installed ## measure queries by key over 10 million messages (4 minutes, 4 GB in /tmp, which the next run uses again)
	$(PYTHON) benchmarks/key_query.py

bench-spark: .venv/dev-installed .venv/spark-installed ## measure reports and the lake against their goals, beside NumPy and DuckDB (20 minutes)
	$(PYTHON) benchmarks/spark.py

check: .venv/dev-installed .venv/spark-installed ## lint, types, architecture and documentation
	$(PYTHON) -m ruff format --check --quiet .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	.venv/bin/lint-imports --no-logo
	@sh scripts/check-javascript.sh
	$(PYTHON) -m pytest -q tests/test_architecture.py tests/test_docs.py

requirements: .venv/dev-installed ## pin requirements/*.in anew, with hashes
	@sh scripts/pin-requirements.sh

messages: .venv/dev-installed ## update the catalogs of the pages' translations (needs GNU gettext)
	for domain in django djangojs; do \
		.venv/bin/python manage.py makemessages -l zh_Hans -d $$domain --no-location --no-wrap --no-obsolete \
			-i .venv -i tests -i benchmarks -i static/vendor -i docs -i data -i node_modules || exit 1; done
	cd dashboard && ../.venv/bin/python ../manage.py compilemessages -l zh_Hans

wheel: .venv/dev-installed ## build dist/glassmq-VERSION-py3-none-any.whl: client and command line, with extras broker and reports
	$(PYTHON) -m hatchling build -t wheel -d dist

clean: ## remove caches; .venv and data stay
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache test-results dist

.venv/bin/python:
	@sh scripts/make-venv.sh

.venv/base-installed: requirements/base.txt scripts/write-command.sh | .venv/bin/python
	@echo "Installing requirements/base.txt into .venv (about a minute the first time)"
	@$(PIP) --quiet -r requirements/base.txt
	@sh scripts/write-command.sh
	@touch $@

.venv/dev-installed: requirements/dev.txt .venv/base-installed
	@echo "Installing requirements/dev.txt into .venv"
	@$(PIP) --quiet -r requirements/base.txt -r requirements/dev.txt
	@touch $@

.venv/spark-installed: requirements/spark.txt .venv/base-installed
	@echo "Installing requirements/spark.txt into .venv (Spark and what goes with it: about 630 MB, some minutes the first time)"
	@$(PIP) -r requirements/base.txt -r requirements/spark.txt
	@touch $@

# The broker does not wait for this installation, and Ctrl-C does not end it. If it is interrupted, the next `make run`
# completes it.
.spark-in-background: .venv/base-installed
	@$(MAKE) --question .venv/spark-installed || { \
		echo "Installing Spark in the background, for reports: .venv/spark-install.log shows the progress"; \
		$(MAKE) --silent .venv/spark-installed >>.venv/spark-install.log 2>&1 & }
