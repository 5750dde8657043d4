# The two commands: `make run` takes raw text to a report, `make test` passes the tests.

PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
RECIPE ?= data_specs/recipes/sample.toml
STORE ?= store

.PHONY: help run test lint check ui soak-crawl bench-memorise bench-same-curve clean
.DEFAULT_GOAL := run

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*##  ?(.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(VENV)/installed  ## the main job: make run RECIPE=... STORE=...
	$(BIN)/korealbert run $(RECIPE) --store $(STORE)

test: $(VENV)/installed  ## all tests
	$(BIN)/pytest -n 2

lint: $(VENV)/installed  ## formatting, style, types, the import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

ui: $(VENV)/installed  ## Prefect server, work pool, deployments and a worker on loopback
	$(BIN)/python -m flows.local_server

soak-crawl: $(VENV)/installed  ## a crawl killed twenty times at random moments must lose nothing, some five minutes
	$(BIN)/python -m bench.soak_crawl

bench-memorise: $(VENV)/installed  ## every loss and label is right: 128 examples learnt by heart, some ten minutes
	$(BIN)/python -m bench.memorise "$$($(BIN)/korealbert run $(RECIPE) --store $(STORE) --until views | tail -n 1)"

bench-same-curve: $(VENV)/installed  ## our loop against a plain loop around transformers, 200 steps
	$(BIN)/python -m bench.same_curve "$$($(BIN)/korealbert run $(RECIPE) --store $(STORE) --until views | tail -n 1)"

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

clean:  ## forget the environment and all artifacts
	rm -rf $(VENV) $(STORE)
