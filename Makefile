# Sabot's front door. Needs git, make and Python 3.11 or newer with venv; everything else goes into .venv, at the
# versions and hashes of the requirements files. `make` alone says what there is to do.

PYTHON ?=# an interpreter to make .venv with; empty: the newest that is found
ARGS ?=#   passed through, as in: make test ARGS="-k money"

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
# Each recipe is one shell script. Targets run one after another: pytest's closing line has to be the last.
.ONESHELL:
.NOTPARALLEL:
.SUFFIXES:
SHELL := /bin/sh
.SHELLFLAGS := -euc

# Somebody's shell settings must not decide what goes into .venv, or where.
unexport PYTHONHOME PYTHONPATH PIP_PREFIX PIP_REQUIRE_HASHES PIP_TARGET
export PIP_USER := 0
export PYTHON

PY := .venv/bin/python

.PHONY: help
help: ## this list
	@echo 'make TARGET [ARGS="…"] [PYTHON=…]'
	sed -n 's/^\([a-z-]*\):[^#]*## /  \1	/p' Makefile | expand -t 14

# ---------------------------------------------------------------------------------------------- environment

# Sets `python` to an interpreter that can make a .venv. Each candidate is really run: a command of that name may
# be a stub that starts nothing (pyenv), or a Debian Python whose venv half is a package of its own.
define find_python
	if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; else set -- python3.13 python3.12 python3.11 python3; fi
	python= lacks_venv=
	for candidate do
		"$$candidate" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' </dev/null >/dev/null 2>&1 || continue
		if "$$candidate" -I -c 'import ensurepip, venv' </dev/null >/dev/null 2>&1; then python=$$candidate; break; fi
		lacks_venv=$${lacks_venv:-$$candidate}
	done
	if [ -z "$$python" ] && [ -n "$$lacks_venv" ]; then
		package=$$("$$lacks_venv" -I -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
		echo "Sabot cannot make its .venv: $$lacks_venv lacks venv; on Debian: apt-get install $$package" >&2
		exit 1
	elif [ -z "$$python" ]; then
		echo "Sabot needs Python 3.11 or newer and finds none (tried: $$*);" \
			"install one (Debian: apt-get install python3 python3-venv) or name it: make setup PYTHON=python3.12" >&2
		exit 1
	fi
endef

# $(1) names the stage, $(2) its requirements files, $(3) the stages that it completes, $(4) what to say.
#
# A stage is complete when its stamp says for which Python, place and checksum of everything asked. Comparing
# contents rather than times spares a set-up after each `git switch`, and notices a copied checkout and a Python
# upgraded beneath. `.venv/.unfinished` stands while packages change: a set-up that was cut short begins again from
# nothing, while one that only failed (no network, say) leaves what was complete before as it was. The lock is for
# two makes at once.
#
# The project itself goes in as an editable wheel, so that `sabot` is a command and has a version. Building that
# takes hatchling, which has a small lock of its own: neither unpinned by way of pip's build isolation, nor part of
# what a production image installs.
define prepare
	asked=$$(cat pyproject.toml requirements*.lock | cksum)
	here=$$(pwd -P)
	print_version='import sys; print("%d.%d" % sys.version_info[:2])'
	wanted=
	if [ -n "$$PYTHON" ]; then wanted=$$("$$PYTHON" -I -c "$$print_version" </dev/null 2>/dev/null) || wanted=none; fi
	ready() {
		made_by=$$(.venv/bin/python -I -c "import pip; $$print_version" </dev/null 2>/dev/null) || made_by=none
		[ ! -e .venv/.unfinished ] && [ "$$(cat '.venv/.ready-$(1)' 2>/dev/null)" = "$$made_by $$here $$asked" ] &&
			{ [ -z "$$wanted" ] || [ "$$wanted" = "$$made_by" ]; }
	}
	if ready; then exit 0; fi
	exec 9<Makefile
	if command -v flock >/dev/null; then flock 9; fi
	if ready; then exit 0; fi
$(find_python)
	echo '$(4)'
	trap 'exit 130' INT TERM # and leave .unfinished
	version=$$("$$python" -I -c "$$print_version")
	if [ -e .venv/.unfinished ] || [ "$$made_by" != "$$version" ] ||
		! grep -qsF "$$here/.venv" .venv/bin/activate
	then
		rm -rf .venv
		"$$python" -I -m venv .venv || { rm -rf .venv; exit 1; }
	fi
	pip() { .venv/bin/python -I -m pip install -q --disable-pip-version-check --no-input "$$@" </dev/null 9<&-; }
	: >.venv/.unfinished
	if pip --require-hashes $(2:%=-r %) && rm -f .venv/.ready-* && pip --no-deps --no-build-isolation -e .; then
		for stage in $(3); do echo "$$version $$here $$asked" >".venv/.ready-$$stage"; done
		rm .venv/.unfinished
	else
		if ls .venv/.ready-* >/dev/null 2>&1; then rm .venv/.unfinished; fi
		echo 'Setting up .venv failed for the reason above; call make again when it is gone.' >&2
		exit 1
	fi
endef

.PHONY: setup
setup: ## make .venv with what Sabot runs on (whatever needs it calls it)
	@$(call prepare,runtime,requirements.lock requirements-build.lock,runtime,Setting up .venv (once, about 20 s)…)

.PHONY: setup-dev
setup-dev: ## the same with what tests and checks need
	@$(call prepare,dev,requirements-dev.lock,runtime dev,Adding what tests and checks need to .venv (once, about 30 s)…)

# Prints the interpreter that a set-up would use, for .ci/run; fails in one sentence where there is none.
.PHONY: python
python:
	@$(find_python)
	echo "$$python"

# ------------------------------------------------------------------------------------------------ using it

.PHONY: demo
demo: setup ## run the demonstration
	@.venv/bin/sabot demo $(ARGS)

.PHONY: demo-kafka
demo-kafka: setup ## the same on Kafka and PostgreSQL, each service a process
	@$(PY) -m deploy.demo $(ARGS)

.PHONY: bench
bench: setup ## measure throughput on this machine
	@$(PY) -m benchmarks $(ARGS)

.PHONY: bench-wallet
bench-wallet: setup ## measure durable bets a second on PostgreSQL, beside pgbench (needs wrk for HTTP)
	@$(PY) -m benchmarks.wallet $(ARGS)

.PHONY: kafka
kafka: setup ## run a Kafka broker for trying things out (ARGS="--brokers 3")
	@exec $(PY) -m deploy.kafka $(ARGS)

.PHONY: postgres
postgres: setup ## run a PostgreSQL server for trying things out
	@exec $(PY) -m deploy.postgres

# ---------------------------------------------------------------------------------------------- developing

.PHONY: test
test: setup-dev ## run the tests on all cores
	@exec $(PY) -m pytest -q -n auto --dist worksteal $(ARGS)

.PHONY: lint
lint: setup-dev ## check style and form
	@$(PY) -m ruff check .
	$(PY) -m ruff format --check .

.PHONY: types
types: setup-dev ## check types
	@$(PY) -m mypy

.PHONY: imports
imports: setup-dev ## check who may import whom
	@$(PY) .venv/bin/lint-imports --no-logo

.PHONY: check
check: lint types imports test ## all of these

.PHONY: schemas
schemas: setup ## write the JSON Schemas and the AsyncAPI document anew
	@$(PY) -m schemas.generate $(ARGS)

# The locks name no download host and no path: whose mirror served a file is no matter, its hash decides.
.PHONY: lock
lock: setup-dev ## solve the dependencies anew (ARGS=--upgrade for newer versions)
	@compile() {
		.venv/bin/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-annotate \
			--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' "$$@"
	}
	compile --extra dev $(ARGS) -o requirements-dev.lock pyproject.toml
	compile -c requirements-dev.lock $(ARGS) -o requirements.lock pyproject.toml
	$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' |
		compile -c requirements-dev.lock $(ARGS) -o requirements-build.lock -

.PHONY: clean
clean: ## remove .venv and what the tools left behind
	@rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache build deploy/kafka/libs dist
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
