# Everything below needs only Python, pip and make; the environment is made on first use.

PYTHON  ?= python3
HOST    ?= 127.0.0.1
PORT    ?= 5000
DATA    ?= data
WORKERS ?= 2
TABLE   ?=
TESTS   ?= tests
RELEASES ?=
PYTHONS ?=
MLFLOW_TESTS ?=
GROUPS  ?=
IMAGES  ?= docs/images
# Two processes by default: most tests wait for a disk or a server rather than for the processor.
JOBS    ?= 2

VENV := .venv
BIN  := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help serve test e2e fuzz matrix higher lint format bench bench-full bench-http docs build clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: $(VENV)/.base ## start MLflow with its UI on an embedded table (HOST, PORT, DATA, TABLE, WORKERS)
	@$(BIN)/python -m mlflow_dynamodbstore.serve --host $(HOST) --port $(PORT) --data "$(DATA)" \
		--workers $(WORKERS) $(if $(TABLE),--table "$(TABLE)")

test: $(VENV)/.dev dynoxide dynamodb-local ## run the tests on every engine (TESTS, JOBS)
	$(BIN)/python -m pytest -n $(JOBS) $(TESTS)

e2e: $(VENV)/.dev $(VENV)/.e2e dynoxide ## look at MLflow's pages and the documentation in a real browser, and keep pictures of them (IMAGES, WITHOUT)
	@sh tools/install_chromium.sh
	SCREENSHOTS="$(IMAGES)" $(BIN)/python -m pytest -n $(JOBS) --dist loadfile tests/browser $(if $(WITHOUT),-k "not $(WITHOUT)")

fuzz: $(VENV)/.dev dynoxide dynamodb-local ## run the property tests for long, with new random examples
	HYPOTHESIS_PROFILE=long SEARCH_FUZZ=3000 STORE_FUZZ=all $(BIN)/python -m pytest -n $(JOBS) --timeout 0 -m hypothesis $(TESTS)

matrix: $(BIN)/python dynoxide dynamodb-local ## run the tests on every release of MLflow that we support (RELEASES, PYTHONS, TESTS)
	$(BIN)/python tools/matrix.py $(if $(RELEASES)$(PYTHONS),--releases $(RELEASES)) \
		$(if $(PYTHONS),--pythons $(PYTHONS)) \
		$(if $(filter-out tests,$(TESTS)),--tests $(TESTS)) --jobs $(JOBS)

higher: $(BIN)/python ## run MLflow's tests of client, server and tracing on SQLite and on ours (MLFLOW_TESTS, GROUPS)
	$(BIN)/python tools/higher.py --tests "$(MLFLOW_TESTS)" $(if $(GROUPS),--groups $(GROUPS)) --jobs $(JOBS)

lint: $(VENV)/.dev ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev ## rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench dynoxide ## measure against MLflow's SQL store, in 5 minutes (SIZES)
	$(BIN)/python -m bench --docs docs $(if $(SIZES),--sizes $(SIZES))

bench-full: $(VENV)/.bench dynoxide ## the same with PostgreSQL and 50,000 runs, in half an hour (SIZES)
	$(BIN)/python -m bench --full --docs docs $(if $(SIZES),--sizes $(SIZES))

bench-http: $(VENV)/.bench ## measure servers with wrk: SQLite, PostgreSQL and ours, in less than 20 minutes (apt install wrk)
	$(BIN)/python -m bench.http --docs docs --disk bench-out

docs: $(VENV)/.docs ## build the documentation into site/; a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

build: $(VENV)/.dev ## build the wheel and the sdist into dist/, and check them as PyPI does
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*

clean: ## remove caches and built files
	rm -rf dist build site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove the environments too (never the data)
	rm -rf $(VENV) .matrix .dynoxide .dynamodb-local

# Two more DynamoDBs to test against. Where one cannot be had, its script says so and the tests go on.
.PHONY: dynoxide dynamodb-local
dynoxide dynamodb-local:
	@script=tools/install_$$(echo $@ | tr - _).sh; if [ -f $$script ]; then sh $$script; fi

$(BIN)/python:
	@echo "Making a Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; \
		rm -rf $(VENV); exit 1; }

$(VENV)/.base: pyproject.toml | $(BIN)/python
	@echo "Installing the package with MLflow into $(VENV); the first time takes a few minutes"
	@sh tools/install.sh $(BIN)/python --editable .
	@touch $@

$(VENV)/.dev $(VENV)/.bench $(VENV)/.docs $(VENV)/.e2e: $(VENV)/.%: pyproject.toml | $(BIN)/python
	@echo "Installing what \`make\` needs for $* into $(VENV)"
	@sh tools/install.sh $(BIN)/python --editable ".[$*]"
	@touch $@ $(VENV)/.base
