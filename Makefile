# One command runs it (`make run`), one command tests it (`make test`).
# Needs Python 3.11+ with its venv module and nothing else: uv is brought from PyPI.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := .tools/bin/uv
STAMP := $(VENV)/.synced
SERVES := $(VENV)/.serves
LOCKED := pyproject.toml packages/client/pyproject.toml packages/lab/pyproject.toml uv.lock hatch_build.py package-lock.json

# Installing takes a minute: at a terminal uv shows how far it is.
QUIET := $(shell test -t 2 || echo --quiet)

# A start reads compiled modules; compiling ours each time takes half a second of it.
unexport PYTHONDONTWRITEBYTECODE
COMPILE := -m compileall -q src packages

.PHONY: setup run test check lint types imports tests browser docs freeze bench queue-bench soak mutants evidence audit clean

setup: $(STAMP)
	@$(BIN)/python $(COMPILE)

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "postdate needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "1/3 bringing uv, which installs the rest"
	@$(PYTHON) -m venv .tools || \
	  { echo "the venv module is missing: install it (Debian: apt-get install python3-venv)"; exit 1; }
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.9'

$(STAMP): $(LOCKED) | $(UV)
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync $(QUIET) --locked --all-extras --compile-bytecode --python $(PYTHON)
	@touch $@ $(SERVES)

# What serving needs and no developer tools; those that are there stay.
$(SERVES): $(LOCKED) | $(UV)
	@echo "2/3 installing what the server needs, with a PostgreSQL: about 170 MB, a minute where nothing is cached"
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync $(QUIET) --locked --all-extras --no-dev --inexact --compile-bytecode --python $(PYTHON)
	@touch $@

run: $(SERVES)
	@echo "3/3 starting"
	@$(BIN)/python $(COMPILE)
	@$(BIN)/postdate serve

# Types are checked by one process while tests wait for servers.
test: setup browser
	@$(MAKE) --no-print-directory -j2 check tests

check: setup lint types imports

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

# The package lies in two source trees; the linter reads one, made of links.
imports: setup
	@rm -rf build/imports && mkdir -p build/imports/postdate
	@for room in src/postdate/* packages/client/src/postdate/*; do ln -sfn $(CURDIR)/$$room build/imports/postdate/; done
	PYTHONPATH=build/imports $(BIN)/lint-imports

# Nothing is run twice: a test that fails now and then is a bug, of the test or of ours. The databases lie in memory
# where there is room: a copy of one costs a disk most of a second. Files run in the order of tests/support/file_order.py,
# not the largest first: those that wait for processes have few tests, and would be left for the end.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 8000000 { print "/dev/shm" }')
tests: setup browser
	$(if $(MEMORY),export TMPDIR=$(MEMORY);) \
	  $(BIN)/pytest -q -m "not soak" -n 4 --dist loadfile --no-loadscope-reorder

# The console is also tested in a real browser: brought where that needs no asking, else skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "bringing chromium for the browser tests" && \
	    (apt-get install -qq -y --no-install-recommends chromium || \
	     { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }) >/dev/null 2>&1; } || \
	  echo "no chromium here: the browser tests are skipped (Debian: apt-get install chromium)"

docs: setup
	PYTHONPATH=tools:tests $(BIN)/python -m sdk.source
	PYTHONPATH=tools:tests $(BIN)/python -m tidy.generated
	PYTHONPATH=tools:tests $(BIN)/python -m tidy.schema
	@mkdir -p build && PYTHONPATH=tools:tests $(BIN)/python -m tidy.site
	@$(UV) run --quiet --locked --isolated --only-group docs zensical build -f build/zensical.toml >$(VENV)/site.log 2>&1 || { cat $(VENV)/site.log; exit 1; }
	@echo "build/site/index.html"

# The schema of a release: from then on its migrations stay as they are, and tests upgrade from them.
freeze: setup
	@PYTHONPATH=tools:tests $(BIN)/python -m tidy.freeze

bench: setup
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --quiet --locked --all-extras --group bench --group peers --python $(PYTHON)
	$(BIN)/postdate bench --all $(if $(SCALE),--scale $(SCALE)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(PENDING),--pending $(PENDING)) \
	  $(if $(PGLEDGER),--pgledger $(PGLEDGER)) $(if $(PAGE),--page $(PAGE))
	$(if $(PAGE),@PYTHONPATH=tools:tests $(BIN)/python -m tidy.generated)

# A benchmark that others wrote (docs/evidence/queue-bench.md): HARNESS is a checkout of it, ARGS what it takes.
# Oban and the harness need Python 3.12, so the peers run in an environment of their own.
QUEUE_PYTHON ?= python3.12
queue-bench: setup
	@test -n "$(HARNESS)" || { echo "HARNESS=<a checkout of hardbyte/postgresql-job-queue-benchmarking> is missing"; exit 2; }
	@POSTDATE_PYTHON=$(CURDIR)/$(BIN)/python PYTHONPATH=packages/lab/src $(UV) run --quiet --isolated --no-project --python $(QUEUE_PYTHON) \
	  --with 'psycopg[binary]' --with psycopg-pool --with matplotlib --with pandas --with numpy --with pydantic --with asyncpg \
	  --with 'pgqueuer>=1.6' --with 'procrastinate>=3.10' --with 'oban>=0.7' \
	  python -m postdate_lab.queue_bench.native $(HARNESS) $(ARGS)

# MINUTES is how long the fault harness runs (tests/faults/test_chaos.py); the rest takes its time.
MINUTES ?= 10
soak: setup
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --quiet --locked --all-extras --group patroni --python $(PYTHON)
	POSTDATE_TEST_MINUTES=$(MINUTES) $(BIN)/pytest -q -m soak

# Seed each bug of tests/mutants into a copy of the project: some test must catch it.
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutants.run $(or $(SLICE),$(NAMES))

# Everything that tries to break Postdate, part by part; hours. What has its record is not run again.
# PARTS="chaos kills" chooses, MINUTES is how long each part runs that can run longer (docs/evidence/evidence.md).
evidence: setup
	@UV_PROJECT_ENVIRONMENT=$(VENV) $(UV) sync --quiet --locked --all-extras --group patroni $(if $(findstring bench,$(or $(PARTS),bench)),--group bench --group peers) --python $(PYTHON)
	$(if $(MEMORY),export TMPDIR=$(MEMORY);) \
	  $(BIN)/python -m postdate_lab.evidence --minutes $(if $(filter command line,$(origin MINUTES)),$(MINUTES),60) --parts "$(PARTS)"

audit: setup
	@mkdir -p build
	@$(UV) export --quiet --locked --all-extras --no-emit-workspace --format requirements-txt -o build/requirements.txt
	$(UV) run --quiet --locked --isolated --only-group audit cyclonedx-py requirements build/requirements.txt --of JSON -o build/sbom.json
	-@$(UV) run --quiet --locked --isolated --only-group audit pip-audit --require-hashes --disable-pip --progress-spinner off \
	  -f json -o build/audit.json -r build/requirements.txt >/dev/null 2>&1
	@$(BIN)/python tools/audit.py build

clean:
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
