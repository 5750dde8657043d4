# The two commands: `make run` takes raw text to a report, `make test` passes the tests.

PYTHON ?= python3.11
# LOCKED=1: exactly the versions and bytes that locks/ names, in an environment of their own.
VENV ?= $(if $(LOCKED),.venv-locked,.venv)
BIN := $(VENV)/bin
RECIPE ?= data_specs/recipes/sample.toml
# Where none is given, the commands know it: that of the services that are up (.env), else `store`.
STORE ?= $(KOREALBERT_STORE)
IN_STORE = $(if $(STORE),--store "$(STORE)")
DATA ?= ../shared/data
ALBERT ?= ../albert
PEERS := $(VENV)-peers
SERVICE ?= .service
PORT ?= 4200

# `uv pip compile` as `make lock` calls it; versions that still fit are kept, with UPGRADE=1 all are the newest.
COMPILE = $(VENV)-lock/bin/uv pip compile --config-file locks/uv.toml $(if $(UPGRADE),--upgrade) --quiet \
	--universal --python-version 3.11 --generate-hashes --annotation-style line --custom-compile-command "make lock" --no-emit-package torch
# To compile all 21,500 modules of the packages takes 45 s; Python compiles and keeps the ones that are loaded.
INSTALL := install --quiet --no-compile
HASHED := --no-deps --require-hashes --no-build-isolation --requirement

# Many images forbid Python to keep what it compiles; then each of the hundreds of processes would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-fast lint check docs ui up down audit lock clean soak soak-bytes soak-crawl soak-finetune soak-mutations soak-pretrain soak-tests
.PHONY: bench-cluster bench-corpus bench-news bench-examples bench-finetune bench-memorise bench-overhead bench-pretrain bench-quality bench-same-curve
.DEFAULT_GOAL := run

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*##  ?(.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(VENV)/installed  ## the main job: make run RECIPE=... STORE=...
	$(BIN)/korealbert run $(RECIPE) $(IN_STORE)

test: $(VENV)/installed  ## all tests but the soaks, or those of a room: make test PKG=corpus/dedup
	$(BIN)/pytest -n 3 tests/$(PKG)

test-fast: $(VENV)/installed  ## the tests that need neither torch nor processes
	$(BIN)/pytest -n 3 -m "not torch and not process and not server"

lint: $(VENV)/installed  ## formatting, style, types, the import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

docs: $(VENV)/installed $(VENV)-docs/installed  ## the documentation as a site, into site/, strictly
	$(BIN)/python -m typer korealbert.flows.cli utils docs --name korealbert --title Commands --output $(VENV)-docs/commands.md > /dev/null
	COMMANDS=$(VENV)-docs/commands.md NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet

ui: $(VENV)/installed  ## Prefect server, deployments and a worker on loopback, in the foreground
	@echo "starting Prefect's server, the deployments and a worker; the first time takes about a minute"
	@KOREALBERT_STORE="$(STORE)" $(BIN)/python -m korealbert.flows.services.local_server

up: $(VENV)/installed  ## PostgreSQL, server with a password, data and training worker on loopback; returns when they answer
	@echo "starting PostgreSQL, Prefect's server and two workers on loopback; the first time takes a minute or two"
	@$(BIN)/python -m korealbert.flows.services.topology up --home $(SERVICE) --port $(PORT) $(IN_STORE)

down: $(VENV)/installed  ## end what `make up` started
	$(BIN)/python -m korealbert.flows.services.topology down --home $(SERVICE)

audit: $(VENV)/installed  ## known vulnerabilities of the installed packages; needs the network
	$(BIN)/pip freeze --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/audited.txt

soak: $(VENV)/installed  ## twenty-four faults at random moments over the sample pipeline, each recovered from, some hours
	$(BIN)/python -m bench.soak

soak-tests: $(VENV)/installed  ## the tests that kill services, machines and clusters, or run a whole page of the docs, minutes each
	$(BIN)/pytest -n 3 -m soak

bench-overhead: $(VENV)/installed  ## what scheduling costs when every stage is cached
	$(BIN)/python -m bench.overhead

bench-cluster: $(VENV)/installed  ## data stages on two Ray nodes beside two local processes
	$(BIN)/python -m bench.cluster $(DATA)/corpus/kowiki_extracted_AA.tar.zst

soak-bytes: $(VENV)/installed  ## kills at chosen moments, flipped bits, runs started together: nothing wrong is sealed, some two hours
	$(BIN)/python -m bench.soak_bytes

soak-crawl: $(VENV)/installed  ## a crawl killed twenty times at random moments must lose nothing, some five minutes
	$(BIN)/python -m bench.soak_crawl

soak-finetune: $(VENV)/installed  ## six tasks × 5 seeds killed again and again must repeat no finished cell, some twenty minutes
	$(BIN)/python -m bench.soak_finetune

soak-pretrain: $(VENV)/installed  ## a pretraining run killed a hundred times ends in the bytes of one that is not, some twenty minutes
	$(BIN)/python -m bench.soak_pretrain

soak-mutations: $(VENV)/installed  ## ten thousand damaged documents for every parser; real ones from DATA, some twenty minutes
	$(BIN)/python -m bench.mutations wikipedia $(DATA)/corpus/wikipedia_xml.tar.zst
	$(BIN)/python -m bench.mutations wikipedia_xml $(DATA)/corpus/wikipedia_xml.tar.zst
	$(BIN)/python -m bench.mutations wikiextractor $(DATA)/corpus/kowiki_extracted_AA.tar.zst --members "*/wiki_0[0-4]"
	$(BIN)/python -m bench.mutations namuwiki $(DATA)/corpus/namuwiki.tar.zst
	$(BIN)/python -m bench.mutations html $(DATA)/corpus/news_html.tar.zst --members "*.html.gz"

# A row below its goal ends its bench with status 1; the others are still wanted.
bench-corpus: $(VENV)/installed $(PEERS)/installed  ## extraction, dedup, crawl, sentences and memory beside their peers
	-$(BIN)/python -m bench.wikipedia $(DATA)/corpus/wikipedia_xml.tar.zst --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.namuwiki $(DATA)/corpus/namuwiki.tar.zst --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.dedup $(DATA)/corpus/kowiki_extracted_AA.tar.zst --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.crawl --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.sentences $(DATA)/corpus/kowiki_extracted_AA.tar.zst $(DATA)/corpus/news_categories.tar.zst
	-$(BIN)/python -m bench.data_stages $(DATA)/corpus/kowiki_extracted_A[ABC].tar.zst
	-$(BIN)/python -m bench.data_scale
	-$(BIN)/python -m bench.decontamination $(DATA)/corpus/kowiki_extracted_AA.tar.zst $(DATA)/benchmarks
	-$(BIN)/python -m bench.filters $(DATA)

bench-news: $(VENV)/installed  ## what the news rules take and leave on 1,000 real articles, and on those kept apart
	$(BIN)/python -m bench.news_residue $(DATA) --sample 1000 --seed 1
	$(BIN)/python -m bench.news_residue $(DATA) --sample 1000 --seed 1 --held-out

bench-examples: $(VENV)/installed $(PEERS)/installed  ## packing, noise and loader beside their peers; ALBERT=checkout of google-research/albert
	$(BIN)/python -m bench.examples $(DATA)/corpus --peers $(PEERS)/bin/python $(if $(wildcard $(ALBERT)),--albert $(ALBERT))

bench-finetune: $(VENV)/installed $(PEERS)/installed  ## examples a second of fine-tuning beside Hugging Face Trainer
	$(BIN)/python -m bench.finetune $(DATA)/benchmarks --peers $(PEERS)/bin/python

bench-pretrain: $(VENV)/installed  ## our loop beside transformers' Trainer: tokens/s, memory, MFU; on a GPU in bf16, base and large
	$(BIN)/python -m bench.pretrain
	$(BIN)/python -m bench.attention

bench-quality: $(VENV)/installed  ## encoders after SECONDS=600 each on two threads, ours and transformers', in one table; SEEDS="1 2 3"
	$(BIN)/python -m bench.equal_time data_specs/recipes/encoders-equal-time.toml --data $(DATA) $(IN_STORE) \
		--seconds $(or $(SECONDS),600) $(if $(SEEDS),--seeds $(SEEDS))

bench-memorise: $(VENV)/installed  ## every loss and label is right: 128 examples learnt by heart, some twenty minutes
	$(BIN)/python -m bench.memorise "$$($(BIN)/korealbert run $(RECIPE) $(IN_STORE) --until views | tail -n 1)"

bench-same-curve: $(VENV)/installed  ## our loop against a plain loop around transformers, 200 steps
	$(BIN)/python -m bench.same_curve "$$($(BIN)/korealbert run $(RECIPE) $(IN_STORE) --until views | tail -n 1)"

lock:  ## write locks/ anew from pyproject.toml; needs the network
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/pip install --quiet "uv==0.13.9"
	$(COMPILE) pyproject.toml --extra dev --no-emit-package korealbert --output-file locks/dev.txt > /dev/null
	$(COMPILE) pyproject.toml --extra crawl --extra language --constraint locks/dev.txt --output-file locks/worker.txt > /dev/null
	printf "prefect\nfastapi\nasyncpg\n" | $(COMPILE) - --constraint locks/dev.txt --output-file locks/server.txt > /dev/null
	printf "%s; sys_platform == 'none'\n" torch deepspeed transformers optuna > $(VENV)-lock/without.txt
	$(COMPILE) pyproject.toml --constraint locks/dev.txt --override $(VENV)-lock/without.txt --output-file locks/corpus.txt > /dev/null
	printf "setuptools\nwheel\n" | $(COMPILE) - --constraint locks/dev.txt --output-file locks/build.txt > /dev/null
	$(VENV)-lock/bin/uv pip compile pyproject.toml --quiet --no-deps --no-annotate --no-header | grep "^torch==" > locks/torch.txt

$(VENV)/installed: pyproject.toml $(if $(LOCKED),$(wildcard locks/*.txt))
	$(PYTHON) -m venv $(VENV)
ifdef LOCKED
	$(BIN)/pip $(INSTALL) $(HASHED) locks/build.txt
	$(BIN)/pip $(INSTALL) $(HASHED) locks/dev.txt
	$(BIN)/pip $(INSTALL) --requirement locks/torch.txt
	$(BIN)/pip $(INSTALL) --no-deps --no-build-isolation --editable .
	$(BIN)/pip check
else
	$(BIN)/pip $(INSTALL) --editable ".[dev]"
endif
	touch $@

$(VENV)-docs/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/pip $(INSTALL) $$($(VENV)-docs/bin/python -c 'import tomllib; print(*map(repr, tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"]))' | xargs -n 1 echo)
	touch $@

$(PEERS)/installed: bench/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --requirement $<
	touch $@

clean:  ## forget the environment and all artifacts
	rm -rf $(VENV) $(VENV)-lock $(VENV)-docs $(PEERS) site "$(or $(STORE),store)"
