# make setup, make test, make experiment: everything else is a detail of these three.

SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup-done
LOG := $(VENV)/setup.log
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
SOURCES := gluonjit experiments tests tools docs setup.py

# What `make experiment` runs; a quicker look: make experiment EPOCHS=1 REPEATS=2
DATA ?= builtin
EPOCHS ?= 2
BATCH_SIZE ?= 256
MODES ?= imperative,hybridized,handbatched,dynamic
REPEATS ?= 5

# What `make tradeoff` measures; a quicker look: make tradeoff SIZES=1,16,64 REPEATS=3
WORKLOAD ?= treelstm-builtin
SIZES ?= 1,4,16,64,256,1024

# What `make bench` measures; a quicker look: make bench BENCH_SIZES=64 REPEATS=2 PEERS=dynet
BENCH_SIZES ?= 25,64,256
BENCH_ENGINE ?= mxnet
PEERS ?= dynet,torch-handbatched-ownbwd
ABLATIONS ?= all

# What `make bench-gpu` runs; to try it on a processor: make bench-gpu GPU_ARGS='--device cpu --quick'
GPU_PYTHON ?= python3
GPU_ARGS ?=

# Tests and experiments find the data sets through this variable alone.
ifndef GLUONJIT_DATA
ifneq ($(wildcard ../shared/data/.),)
export GLUONJIT_DATA := $(abspath ../shared/data)
endif
endif

BENCH ?= $(if $(wildcard $(GLUONJIT_DATA)/sick/.),treelstm-sick,treelstm-builtin)

# One thread on one core: what is measured is then the program and not its neighbours.
ONE_CORE := OMP_NUM_THREADS=1 $(shell command -v taskset >/dev/null && taskset -c 0 true 2>/dev/null && echo taskset -c 0)

.PHONY: help setup test lint types imports unit sanitize experiment tradeoff bench bench-gpu coverage clean

help:
	@echo 'make setup        .venv with everything that tests and experiments need'
	@echo 'make test         lint, types, import order, tests'
	@echo 'make sanitize     the parts in C built with address and undefined-behaviour sanitizers, and the tests that run them'
	@echo 'make coverage     which branches of gluonjit/ the tests take: results/coverage/index.html'
	@echo 'make experiment   a short training run and the throughput of every mode, on a generated corpus'
	@echo 'make tradeoff     what finer and coarser granularity costs and gains, on a generated corpus'
	@echo 'make bench        throughput beside DyNet and PyTorch, on SICK where it is, else on a generated corpus'
	@echo 'make bench-gpu    the models in PyTorch on a GPU, by the python of GPU_PYTHON, which has torch and numpy'
	@echo 'make clean        remove what make made, .venv included'

setup: $(STAMP)
	@:

# pip works in silence; when it fails the log has the reason.
$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard gluonjit/native/* gluonjit/*.pxd gluonjit/graph/*.p* gluonjit/hybrid/capture/guards/facts.p* gluonjit/analysis/flat/*.py) gluonjit/rows/tables.py gluonjit/rows/blocks.py
	@fits() { "$$1" -c 'import sys, venv, ensurepip; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' >/dev/null 2>&1; }
	if ! fits $(BIN)/python; then
		for python in $${PYTHON:-} $$(type -aP python3 python3.11 python3.10 python3.9 || true); do
			if fits "$$python"; then break; fi
			python=
		done
		if [ -z "$${python:-}" ]; then
			echo 'setup: MXNet 1.9.1 needs Python 3.9, 3.10 or 3.11 (with venv), and none is on the PATH.' >&2
			echo 'setup: install one, or name it: make setup PYTHON=/path/to/python3.11' >&2
			exit 1
		fi
		rm -rf $(VENV)
		"$$python" -m venv $(VENV)
	fi
	echo "setup: installing into $(VENV) ($$($(BIN)/python --version)); the first time takes a few minutes"
	install() { $(PIP) install --no-build-isolation -c constraints.txt "$$@" >>$(LOG) 2>&1; }
	failed() { tail -n 40 $(LOG) >&2; echo 'setup: pip failed; $(LOG) has all it said' >&2; exit 1; }
	: >$(LOG)
	# What is built without isolation finds these here: the package itself, and gluonnlp, which comes as its source.
	install 'setuptools>=77' wheel 'cython>=3.0' || failed
	if ! install -e '.[mxnet,nlp,fibers,experiments,dev]'; then
		install -e '.[mxnet,fibers,experiments,dev]' || failed
		echo 'setup: gluonnlp is left out, it did not build (it needs a C compiler and the headers of Python);' \
			'experiments go on without it. $(LOG) has the reason.'
	fi
	if ! install -e '.[torch]'; then
		echo 'setup: PyTorch is left out, it could not be installed; its tests are left out. $(LOG) has the reason.'
	fi
	if ! $(BIN)/python -c 'import gluonjit._fast, gluonjit._rows' 2>>$(LOG); then
		echo 'setup: the parts in C were not built, so captures and steps run in Python, slowly. To see the reason:' \
			'$(BIN)/python setup.py build_ext --inplace'
	fi
	touch $(STAMP)

test: lint types imports unit

lint: setup
	@$(BIN)/ruff check --quiet --output-format concise $(SOURCES)
	$(BIN)/ruff format --check --quiet $(SOURCES) || { echo 'lint: run $(BIN)/ruff format $(SOURCES)' >&2; exit 1; }

types: setup
	@$(BIN)/mypy

imports: setup
	@$(BIN)/lint-imports $$($(BIN)/lint-imports --help | grep -o -m1 -- --no-logo || true)

# A process a core, each with one thread: more stall each other. One file's tests run in one process, in order.
# A process that crashes is not replaced: xdist would wait for ever for the rest of its file. That file runs once more, by
# itself, in case what the process did before is to blame; a crash that comes again is a failure.
# Warnings are not listed: most are the library's advice on programs that tests write badly on purpose, and are asserted.
# One that says that a program was wrong is an error.
QUIETLY := -W ignore -W error::gluonjit.errors.RuleWarning
unit: setup
	@export OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1}
	log=$$(mktemp)
	trap 'rm -f "$$log"' EXIT
	status=0
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --max-worker-restart 0 $(PYTEST_ARGS) $(QUIETLY) \
		2>&1 | tee "$$log" || status=$$?
	if [ $$status != 1 ]; then exit $$status; fi
	crashed=$$(sed -n "s/^worker '.*' crashed while running '\([^:]*\)::.*/\1/p" "$$log")
	if [ -z "$$crashed" ] || [ $$(wc -w <<<"$$crashed") != $$(grep -c '^\(FAILED\|ERROR\) ' "$$log") ]; then exit 1; fi
	echo "unit: a process crashed, see above; its file runs once more by itself:" $$crashed
	$(BIN)/python -m pytest $(QUIETLY) $$crashed

# In a copy of the package, so that nothing else ever loads these builds. What runs: row programs (pure numpy), the
# steps in C of both engines, captures in C, and hostile calls. The frameworks themselves are not built so; leaks are
# left out, since Python and they keep memory to the end. A finding ends the process, and with it the target.
SANITIZED := build/sanitize
SANITIZE := -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_TESTS ?= $(addprefix tests/,$(addsuffix .py,$(addprefix core/test_,hostile rows rows_programs rows_random rows_threads assembly planning stretches reuse replaying) \
	$(addprefix mxnet/test_,fused wide_cells state compiled doors) $(addprefix torch/test_,fused wide_cells rows writes state compiled hooks doors plain_modules quick_views)))
# What takes minutes then, and runs little of them.
SANITIZE_LEFT_OUT := very_many_operators or results_in_python or goes_through_modules_of_programs or doctor

sanitize: setup
	@python=$$(cd $(BIN) && pwd)/python
	library() { $${CC:-gcc} -print-file-name="$$1"; }
	rm -rf $(SANITIZED)
	mkdir -p $(SANITIZED)
	cp -r gluonjit experiments tests tools docs setup.py pyproject.toml README.md LICENSE Makefile $(SANITIZED)/
	cd $(SANITIZED)
	rm -f gluonjit/*.so
	CC=$${CC:-gcc} CFLAGS='$(SANITIZE)' LDFLAGS='$(SANITIZE)' "$$python" setup.py -q build_ext --inplace --force >build.log 2>&1 \
		&& ls gluonjit/_{fast,rows,ordering,paths,placing,tables,blocks}.*.so >/dev/null || { tail -n 40 build.log >&2; exit 1; }
	LD_PRELOAD="$$(library libasan.so) $$(library libubsan.so) $$(library libstdc++.so.6)" PYTHONMALLOC=malloc \
		ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:halt_on_error=1:allocator_may_return_null=1 \
		UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
		"$$python" -m pytest -q -p no:cacheprovider -W ignore -k 'not ($(SANITIZE_LEFT_OUT))' $(SANITIZE_TESTS)

# Branches of the Python that the tests take; the compiled parts run interpreted, so that they count. Part of it:
# make coverage COVERAGE_TESTS=tests/core/test_public.py
COVERAGE_TESTS ?= tests

coverage: setup
	@mkdir -p results
	rm -f results/.coverage*
	python=$$(cd $(BIN) && pwd)/python
	GLUONJIT_PURE=1 OMP_NUM_THREADS=1 "$$python" -m coverage run -m pytest \
		-n auto --maxprocesses 4 --dist loadfile -q -W ignore $(COVERAGE_TESTS) $(PYTEST_ARGS)
	"$$python" -m coverage combine -q
	"$$python" -m coverage html -q
	"$$python" -m coverage report

experiment: setup
	@mkdir -p results
	$(ONE_CORE) $(BIN)/python -m experiments.treelstm train --mode dynamic --data $(DATA) \
		--epochs $(EPOCHS) --batch-size 25 --seed 1 --json results/train.json
	$(ONE_CORE) $(BIN)/python -m experiments.treelstm compare --data $(DATA) --batch-size $(BATCH_SIZE) \
		--modes $(MODES) --repeats $(REPEATS) --seed 1 \
		--json results/treelstm.json --plot results/treelstm.png

tradeoff: setup
	@mkdir -p results
	$(ONE_CORE) $(BIN)/python -m experiments.tradeoff --workload $(WORKLOAD) --batch-sizes $(SIZES) \
		--repeats $(REPEATS) --seed 1 --json results/tradeoff.json --plot results/tradeoff.png

bench: setup
	@mkdir -p results
	$(ONE_CORE) $(BIN)/python -m experiments.throughput --engine $(BENCH_ENGINE) --workload $(BENCH) --batch-size $(BENCH_SIZES) \
		--threads 1 $(if $(PEERS),--peers $(PEERS)) $(if $(ABLATIONS),--ablations $(ABLATIONS)) --repeats $(REPEATS) \
		--seed 1 --json results/throughput-$(BENCH).json --plot results/throughput-$(BENCH).png

# Without `setup`: a machine with a GPU has its own PyTorch, and needs nothing else.
bench-gpu:
	@mkdir -p results
	$(GPU_PYTHON) -m experiments.gpu $(GPU_ARGS) --json results/gpu.json --plot results/gpu.png

clean:
	rm -rf $(VENV) .venv-peers build dist gluonjit/*.so *.egg-info results
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find gluonjit experiments tests -name __pycache__ -type d -prune -exec rm -rf {} +
