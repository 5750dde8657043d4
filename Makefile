# `make run` builds a report from raw text, `make test` runs the tests.

PYTHON ?= python3.11
# LOCKED=1 installs exactly the versions and files of locks/, in an environment of its own.
VENV ?= $(if $(LOCKED),.venv-locked,.venv)
BIN := $(VENV)/bin
RECIPE ?= data_specs/recipes/sample.toml
# Without STORE, the commands use the store of the running services (.env), or else `store`.
STORE ?= $(KOREALBERT_STORE)
IN_STORE = $(if $(STORE),--store "$(STORE)")
DATA ?= ../shared/data
ALBERT ?= ../albert
PEERS := $(VENV)-peers
SERVICE ?= .service
PORT ?= 4200

# `uv pip compile` for `make lock`; it keeps versions that still fit, and UPGRADE=1 takes the newest ones.
COMPILE = $(VENV)-lock/bin/uv pip compile --config-file locks/uv.toml $(if $(UPGRADE),--upgrade) --quiet \
	--universal --python-version 3.11 --generate-hashes --annotation-style line --custom-compile-command "make lock" --no-emit-package torch
# Compiling all 21,500 modules of the packages takes 45 s; Python compiles those that are imported, once.
INSTALL := install --quiet --no-compile
HASHED := --no-deps --require-hashes --no-build-isolation --requirement

# Many images set this variable; each of the hundreds of processes would then compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test test-fast lint check docs ui up down audit lock clean soak soak-bytes soak-crawl soak-finetune soak-mutations soak-pretrain soak-tests test-fake-cuda
.PHONY: bench-cluster bench-corpus bench-news bench-examples bench-finetune bench-memorise bench-overhead bench-pretrain bench-quality bench-same-curve
.DEFAULT_GOAL := run

help:  ## show this list
	@sed -nE 's/^([a-z-]+):.*##  ?(.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

run: $(VENV)/installed  ## build a recipe: make run RECIPE=... STORE=...
	$(BIN)/korealbert run "$(RECIPE)" $(IN_STORE)

test: $(VENV)/installed  ## all tests but the soaks, or those of one room: make test PKG=corpus/dedup
	$(BIN)/pytest -n 4 tests/$(PKG)

test-fast: $(VENV)/installed  ## the tests that need neither torch nor other processes
	$(BIN)/pytest -n 2 -m "not torch and not process and not server"

lint: $(VENV)/installed  ## check formatting, style, types and the import contract
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test

docs: $(VENV)/installed $(VENV)-docs/installed  ## build the documentation as a site in site/, strictly
	$(BIN)/python -m typer korealbert.flows.cli utils docs --name korealbert --title Commands --output $(VENV)-docs/commands.md > /dev/null
	COMMANDS=$(VENV)-docs/commands.md NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/mkdocs build --strict --quiet

ui: $(VENV)/installed  ## run Prefect's server, the deployments and a worker on loopback, in the foreground
	@echo "starting Prefect's server, the deployments and a worker; the first time takes about a minute"
	@KOREALBERT_STORE="$(STORE)" $(BIN)/python -m korealbert.flows.services.local_server

up: $(VENV)/installed  ## start PostgreSQL, a server with a password, a data and a training worker on loopback
	@echo "starting PostgreSQL, Prefect's server and two workers on loopback; the first time takes a minute or two"
	@$(BIN)/python -m korealbert.flows.services.topology up --home "$(SERVICE)" --port $(PORT) $(IN_STORE)

down: $(VENV)/installed  ## stop what `make up` started
	$(BIN)/python -m korealbert.flows.services.topology down --home "$(SERVICE)"

audit: $(VENV)/installed  ## list known vulnerabilities of the installed packages; needs the network
	$(BIN)/pip freeze --exclude-editable | sed -E 's/\+[a-z0-9.]+$$//' > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/audited.txt

soak: $(VENV)/installed  ## 24 faults at random moments of the sample pipeline, with recovery; some hours
	$(BIN)/python -m bench.soak

soak-tests: $(VENV)/installed  ## the tests that kill services, machines and clusters, or run a page of the docs; minutes each
	$(BIN)/pytest -n 3 -m soak

test-fake-cuda: $(VENV)-cuda/installed  ## what CUDA would do in a step, without a GPU; installs torch's CUDA build, 5 GB
	$(VENV)-cuda/bin/python -m pytest -n 0 tests/bench/test_fake_cuda.py

bench-overhead: $(VENV)/installed  ## cost of scheduling when every stage is cached
	$(BIN)/python -m bench.overhead

bench-cluster: $(VENV)/installed  ## data stages on two Ray nodes beside two local processes
	$(BIN)/python -m bench.cluster "$(DATA)"/corpus/kowiki_extracted_AA.tar.zst

soak-bytes: $(VENV)/installed  ## kills at chosen moments, flipped bits, simultaneous runs: nothing wrong is sealed; about two hours
	$(BIN)/python -m bench.soak_bytes

soak-crawl: $(VENV)/installed  ## a crawl killed twenty times at random moments loses nothing; about five minutes
	$(BIN)/python -m bench.soak_crawl

soak-finetune: $(VENV)/installed  ## six tasks × 5 seeds, killed repeatedly, build no finished cell again; about twenty minutes
	$(BIN)/python -m bench.soak_finetune

soak-pretrain: $(VENV)/installed  ## two pretraining runs, each killed a hundred times, end in the same bytes; about an hour
	$(BIN)/python -m bench.soak_pretrain
	$(BIN)/python -m bench.soak_pretrain --packed --store store/soak-pretrain-packed

soak-mutations: $(VENV)/installed  ## ten thousand damaged documents of DATA for every parser; about twenty minutes
	$(BIN)/python -m bench.mutations wikipedia "$(DATA)"/corpus/wikipedia_xml.tar.zst
	$(BIN)/python -m bench.mutations wikipedia_xml "$(DATA)"/corpus/wikipedia_xml.tar.zst
	$(BIN)/python -m bench.mutations wikiextractor "$(DATA)"/corpus/kowiki_extracted_AA.tar.zst --members "*/wiki_0[0-4]"
	$(BIN)/python -m bench.mutations namuwiki "$(DATA)"/corpus/namuwiki.tar.zst
	$(BIN)/python -m bench.mutations html "$(DATA)"/corpus/news_html.tar.zst --members "*.html.gz"

# A bench with a row below its goal exits with 1; the others run nevertheless.
bench-corpus: $(VENV)/installed $(PEERS)/installed  ## extraction, deduplication, crawl, sentences and memory beside their peers
	-$(BIN)/python -m bench.wikipedia "$(DATA)"/corpus/wikipedia_xml.tar.zst --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.namuwiki "$(DATA)"/corpus/namuwiki.tar.zst --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.dedup "$(DATA)"/corpus/kowiki_extracted_AA.tar.zst --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.crawl --peers $(PEERS)/bin/python
	-$(BIN)/python -m bench.sentences "$(DATA)"/corpus/kowiki_extracted_AA.tar.zst "$(DATA)"/corpus/news_categories.tar.zst
	-$(BIN)/python -m bench.data_stages "$(DATA)"/corpus/kowiki_extracted_A[ABC].tar.zst
	-$(BIN)/python -m bench.data_scale
	-$(BIN)/python -m bench.decontamination "$(DATA)"/corpus/kowiki_extracted_AA.tar.zst "$(DATA)"/benchmarks
	-$(BIN)/python -m bench.filters "$(DATA)"

bench-news: $(VENV)/installed  ## what the news rules remove and leave in 1,000 real articles, and in held-out ones
	$(BIN)/python -m bench.news_residue "$(DATA)" --sample 1000 --seed 1
	$(BIN)/python -m bench.news_residue "$(DATA)" --sample 1000 --seed 1 --held-out

bench-examples: $(VENV)/installed $(PEERS)/installed  ## packing, noise and loader beside their peers; ALBERT=checkout of google-research/albert
	$(BIN)/python -m bench.examples "$(DATA)"/corpus --peers $(PEERS)/bin/python $(if $(wildcard $(ALBERT)),--albert "$(ALBERT)")

bench-finetune: $(VENV)/installed $(PEERS)/installed  ## examples per second of fine-tuning beside Hugging Face Trainer
	$(BIN)/python -m bench.finetune "$(DATA)"/benchmarks --peers $(PEERS)/bin/python

bench-pretrain: $(VENV)/installed  ## our loop beside Hugging Face Trainer: tokens/s, memory, MFU; on a GPU base and large in bf16
	$(BIN)/python -m bench.pretrain
	$(BIN)/python -m bench.kernels

bench-quality: $(VENV)/installed  ## our encoders and those of transformers after SECONDS=600 each; SEEDS="1 2 3" THREADS=2
	$(BIN)/python -m bench.equal_time data_specs/recipes/encoders-equal-time.toml --data "$(DATA)" $(IN_STORE) \
		--seconds $(or $(SECONDS),600) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(THREADS),--threads $(THREADS))

bench-memorise: $(VENV)/installed  ## the model learns 128 examples by heart, so losses and labels are right; about twenty minutes
	$(BIN)/python -m bench.memorise "$$($(BIN)/korealbert run "$(RECIPE)" $(IN_STORE) --until views | tail -n 1)"

bench-same-curve: $(VENV)/installed  ## 200 steps of our loop beside a plain loop around transformers
	$(BIN)/python -m bench.same_curve "$$($(BIN)/korealbert run "$(RECIPE)" $(IN_STORE) --until views | tail -n 1)"

lock:  ## write locks/ from pyproject.toml; needs the network
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

# Only torch differs; all other packages are those of $(VENV). `===` refuses a build that is marked as one for CPUs.
$(VENV)-cuda/installed: $(VENV)/installed
	$(PYTHON) -m venv $(VENV)-cuda
	$(VENV)-cuda/bin/pip $(INSTALL) torch===$$($(BIN)/python -c "import torch; print(torch.__version__.split('+')[0])")
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > $$($(VENV)-cuda/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/others.pth
	touch $@

$(PEERS)/installed: bench/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --requirement $<
	touch $@

clean:  ## delete the environments and the artifacts in store/; a store elsewhere stays
	rm -rf $(VENV) $(VENV)-lock $(VENV)-docs $(VENV)-cuda $(PEERS) site store
