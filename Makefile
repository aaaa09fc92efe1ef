# Every command of the project; `make help` lists them, CI runs the same ones.
#
# Everything lives in this checkout: .venv (Python), .cache (jars, pip's cache, temporary files), lake (the tables),
# target and logs (dbt's). Another interpreter: make setup PYTHON=/path/to/python3.12. Arguments for pytest and for
# the benchmarks: make test PYTEST="-k aerospike", make bench BENCH="decoders".

SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

BIN := .venv/bin
PYTHON ?=
PYTEST ?=
BENCH ?=
FUZZ ?=
SOAK ?=
# Not from the environment, where such names are often somebody else's.
PORT := 9092
KAFKA :=
# The folders of tests by their names alone.
TESTS = $(if $(filter unit functional system,$(PYTEST)),tests/python/$(PYTEST),$(PYTEST))
DEMO :=
# Generic tests are macros, and macros are no SQL before dbt renders them.
SQL := models shared
PYTHON_CODE := dbt dbt_lakehouse python_udfs local_kafka tests tools

# The same result in everybody's shell: no other project's dbt profile, Spark installation, Python path or pip target.
# For another target or profile, call dbt or lakehouse yourself.
unexport $(filter DBT_% PYSPARK_% SPARK_%,$(.VARIABLES))
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CLASSPATH HADOOP_CONF_DIR
# With it, each process compiles our modules anew, and those of packages that only development needs.
unexport PYTHONDONTWRITEBYTECODE
unexport PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIREMENT PIP_CONSTRAINT PIP_REQUIRE_VIRTUALENV
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export TMPDIR := $(CURDIR)/.cache/tmp
export PYTHON
# The demo and the tests are small (profiles/profiles.yml).
export LAKEHOUSE_SMALL := true

.PHONY: help setup run test real fuzz soak lint format bench bench-kafka bench-rivals kafka demo-kafka demo-debezium docs commands pictures sbom recording report-picture notebook clean lock prerequisites

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' Makefile

setup: .venv/.jars ## make .venv from the pinned requirements and fetch Spark's jars

run: setup ## build the demo: land its captures, dbt build, print three gold tables, and what to do next
	@$(BIN)/dbt build --exclude-resource-type unit_test
	@$(BIN)/lakehouse show accounts regions --limit 3
	@$(BIN)/lakehouse show orders --limit 3 --columns order_id,status,amount,currency,_occurred_at
	@printf '%s\n' 'next, after `source .venv/bin/activate`:' \
	  '  lakehouse show                            all gold tables' \
	  '  lakehouse sql "select * from orders"      a query; without one, a shell' \
	  '  lakehouse report --open                   what this run did' \
	  '  lakehouse init shop --kafka broker:9092   a project for your own topics'

test: setup .venv/.dev .venv/.classes $(if $(filter unit,$(PYTEST)),,.venv/.connect) ## run all tests, through dbt too (PYTEST=unit, functional, system or "-k name" chooses)
	@$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder $(TESTS)

real: setup .venv/.dev .venv/.classes .venv/.connect ## hold gold against a real PostgreSQL and MariaDB, through Debezium (PYTEST="-k mariadb --seeds 3 --settings all", "--killed")
	@$(BIN)/python -m pytest -o addopts="--strict-markers -ra" --rounds 3 tests/python/system/test_real_source.py tests/python/system/test_real_events.py tests/python/system/test_demo_debezium.py $(PYTEST)

fuzz: setup .venv/.dev .venv/.fuzz ## look for payloads that break a decoder (FUZZ="--format debezium_json --seconds 600")
	@PYTHONPATH=tests/python $(BIN)/python -m support.fuzzing $(FUZZ)

soak: setup .venv/.dev .venv/.classes $(if $(findstring --fuzz,$(SOAK)),.venv/.fuzz) $(if $(findstring --real,$(SOAK)),.venv/.connect) ## play random streams and crashes against the references (SOAK="--minutes 600"; SOAK="--help")
	@PYTHONPATH=tests/python $(BIN)/python -m support.soak $(SOAK)

# At last what no linter looks at: macros and YAML have 100 columns. A word of more than 80 (a type, a literal) can't be
# broken. Descriptions in Markdown are the comments of the tables' columns, so each is one line.
lint: setup .venv/.dev ## check Python and SQL: ruff, mypy, sqlfluff, length of lines
	@$(BIN)/ruff check --quiet $(PYTHON_CODE)
	@$(BIN)/ruff format --check --quiet $(PYTHON_CODE)
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/sqlfluff lint --disable-progress-bar $(SQL)
	@! grep -rnE --include='*.sql' --include='*.yml' '^.{101}' macros models shared dbt_lakehouse/build | grep -vE '[^ ]{81}'

format: setup .venv/.dev ## rewrite Python and SQL in the project's style
	@$(BIN)/ruff check --fix $(PYTHON_CODE)
	@$(BIN)/ruff format $(PYTHON_CODE)
	@$(BIN)/sqlfluff fix --disable-progress-bar $(SQL)

bench: setup .venv/.dev .venv/.classes ## measure ratios against their bars (BENCH="decoders --events 100000"; BENCH="--help")
	@LAKEHOUSE_SMALL=false $(BIN)/python -m tools.benchmarks $(BENCH)

bench-kafka: setup .venv/.dev ## measure landing from Kafka against a plain Spark job (BENCH="--messages 2000000")
	@LAKEHOUSE_SMALL=false $(BIN)/python tools/benchmarks/kafka_landing.py $(BENCH)

bench-rivals: setup .venv/.dev .venv/.classes .cache/rivals/delta/.made .cache/rivals/hudi/.made ## measure first load and increments against rivals (BENCH="--events 1000000")
	@LAKEHOUSE_SMALL=false $(BIN)/python -m tools.benchmarks.rivals $(BENCH)

kafka: setup .venv/.dev ## run a Kafka broker with the demo's topics until Ctrl-C (PORT=9192, KAFKA="--fresh")
	@$(BIN)/python -m local_kafka --port $(PORT) $(KAFKA)

demo-kafka: setup .venv/.dev ## watch events flow from Kafka to gold while a producer writes (DEMO="--rounds 5")
	@$(BIN)/python -m local_kafka.demo $(DEMO)

demo-debezium: setup .venv/.dev ## watch gold follow a PostgreSQL whose rows change, through Debezium, until Ctrl-C (DEMO="--seconds 60")
	@$(BIN)/python -m local_kafka.demo_debezium $(DEMO)

docs: setup ## write dbt's documentation as one page, target/docs.html, and show it in the browser
	@$(BIN)/lakehouse docs --open

commands: setup ## write the options of all commands anew, into docs/commands.md
	@$(BIN)/python -m tools.documents.commands

pictures: setup ## draw the pictures of docs/current-state.md anew
	@$(BIN)/python -m tools.pictures

recording: run .venv/.dev ## draw README's picture of a terminal anew, by commands on the demo's lake
	@$(BIN)/python -m tools.documents.recording

report-picture: setup .venv/.dev ## draw the pictures of a run's report and of dbt's docs anew (needs Chromium)
	@$(BIN)/python -m tools.documents.report_picture

notebook: run .venv/.dev ## run examples/notebook.ipynb anew on the demo's lake, and keep its plots in it
	@$(BIN)/python -m tools.documents.notebook

sbom: setup ## list the packages and jars of a runtime with their checksums: target/sbom.cdx.json (CycloneDX)
	@$(BIN)/python -m tools.documents.sbom

clean: ## delete the lake, dbt's output, logs and temporary files; keep .venv and the jars
	rm -rf lake target logs .cache/tmp .cache/test.log .pytest_cache .hypothesis .mypy_cache .ruff_cache

lock: prerequisites ## pin and hash requirements/*.in and requirements-*.in anew
	@.ci/lock

prerequisites:
	@.ci/prerequisites >/dev/null
	@mkdir -p "$$TMPDIR"

# Stamps: an installation runs again when what it installs from has changed. Order-only: the prerequisites are looked
# at each time, and first, without making anything out of date.
.venv/.runtime: requirements-build.txt requirements.txt pyproject.toml | prerequisites
	@.ci/install runtime
	@touch $@

.venv/.dev: requirements-dev.txt .venv/.runtime | prerequisites
	@.ci/install dev
	@touch $@

.venv/.fuzz: requirements-fuzz.txt .venv/.runtime | prerequisites
	@.ci/install fuzz
	@touch $@

.venv/.jars: dbt_lakehouse/spark/jars.py .venv/.runtime | prerequisites
	@$(BIN)/lakehouse jars
	@touch $@

# A minute that pays for itself after some ten sessions.
.venv/.classes: dbt_lakehouse/commands/jars.py .venv/.jars | prerequisites
	@$(BIN)/lakehouse jars --archive
	@touch $@

# 53 MB. Without them, tests against a real database are skipped, and the next call asks for them again.
.venv/.connect: local_kafka/kafka_connect_jars.txt local_kafka/debezium_postgres_jars.txt local_kafka/postgres_jars.txt .venv/.runtime | prerequisites
	@if $(BIN)/python -m local_kafka.connect debezium_postgres_jars.txt postgres_jars.txt; then \
	    touch $@; \
	else \
	    echo "so no test runs against a real database"; \
	fi

# Other PySparks than ours.
.cache/rivals/%/.made: tools/benchmarks/rivals/requirements-%.txt requirements-build.txt | prerequisites
	@$$(.ci/prerequisites) -m venv --clear $(@D)
	@for file in requirements-build.txt $<; do \
	    $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
	        --no-build-isolation -r $$file || exit 1; \
	done
	@touch $@
