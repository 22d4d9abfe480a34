# The two commands of the README are `make quickstart` and `make test`.
.DEFAULT_GOAL := help
# Compiled code is kept: every start of the program gains from it.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup quickstart test test-long test-faults test-interop bench check format lock schema docs clean

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check

help: ## Say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make .venv with the program and everything for development

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Holdfast needs Python 3.11 or newer: make PYTHON=python3.12 setup"; exit 1; }
	@echo "· making $(VENV) with $$($(PYTHON) --version)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "· installing what is locked in requirements.lock"
	@awk '/^[a-z]/ { keep = /^uv==/ } keep' requirements.lock > $(VENV)/uv.lock
	@$(PIP) --require-hashes --requirement $(VENV)/uv.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --requirement requirements.lock \
	  || { echo "· again with pip, which knows your own index (a minute or two)"; $(PIP) --require-hashes --requirement requirements.lock; }
	@echo "· installing Holdfast itself"
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

quickstart: setup ## See Holdfast at work on an example, in a minute
	@$(BIN)/python tools/quickstart.py

test: setup ## Run the tests (under ten minutes on two cores)
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not long" $(ARGS)

test-long: setup ## Run the tests that take many seconds each
	@$(BIN)/python -m pytest -n auto --dist worksteal -m long $(ARGS)

FAULTS ?= 300
ifndef SEED
SEED := $(shell date +%s)
endif

test-faults: setup ## Kill whoever has a part in an apply, FAULTS=300 times at random (SEED=... repeats, SCENARIO=... plays one)
	@echo "· $(FAULTS) kills with the seed $(SEED)"
	@FAULTS=$(FAULTS) SEED=$(SEED) $(BIN)/python -m pytest -n auto --dist worksteal -m faults --tb=short tests/faults $(ARGS)

test-interop: setup ## Run the tests that want other tools (HOLDFAST_TOOLS names a folder with them)
	@$(BIN)/python -m pytest -n auto -rs tests/interop $(ARGS)

bench: setup ## Measure against plain Terraform and Terragrunt (HOLDFAST_TOOLS names a folder with them)
	@$(BIN)/python bench/bench.py $(ARGS)

check: setup ## Format, lint, types, imports, generated files
	@$(BIN)/ruff format --check --quiet . || { echo "make format mends this"; exit 1; }
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/generate.py --check
	@! grep -nE 'https?://|^--(index|extra|find)' requirements.lock

format: setup ## Format the code and mend what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: setup ## Lock the dependencies again, newest versions
	@$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --upgrade --quiet --output-file requirements.lock

docs: setup ## Write the generated files again (JSON Schema, the page of the command line)
	@$(BIN)/python tools/generate.py

clean: ## Take away what was built here
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache dist
