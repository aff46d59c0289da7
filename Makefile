# make verify: the tests that take minutes.   make golden BASE=…: compare all results with those of another commit.
# make test-matrix: the tests on every supported Python that is installed, with the oldest and the newest dependencies.
# make docs: build the website.
# make reproduce: the paper's experiments.
# make demo: install what users get and show it on real data.   make test: lint, types, layers, tests.
# PYTHON=… chooses the interpreter (after make clean, where there is a .venv already); pip's own settings choose the index.
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo docs test tests tests-oldest tests-newest test-matrix verify golden bench reproduce clean

demo: $(VENV)/.installed
	@$(BIN)/python -m vbsvm demo

# Warnings are errors; examples and tutorials are run.
docs: $(VENV)/.installed-dev
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

test: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

JOBS := auto
tests: $(VENV)/.installed-dev
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile $(PYTESTFLAGS)

# Goes on after a failure, and fails at the end. make test-matrix PYTHONS=3.12 AGES=newest runs a part of it, JOBS=1 on one
# processor. A Python is looked for on the PATH and in pyenv. The pages show what newer versions have: they are left out
# with the oldest. make clean first, to get the newest versions anew.
PYTHONS := 3.11 3.12 3.13 3.14
AGES := oldest newest
test-matrix:
	@failed=0; ran=; summary=; \
	for version in $(PYTHONS); do \
	  found=; \
	  for python in "python$$version" "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version".*/bin/python3; do \
	    if "$$python" -c 'import venv, ensurepip' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  for age in $(AGES); do \
	    if [ -z "$$found" ]; then result="not run, it is not installed"; \
	    elif ran=yes; $(MAKE) VENV=.venv-$$version-$$age PYTHON="$$found" tests-$$age; then result=passed; \
	    else result=FAILED; failed=1; fi; \
	    summary="$${summary}Python $$version, $$age versions: $$result\n"; \
	  done; \
	done; \
	printf "\n$$summary"; [ -n "$$ran" ] && exit $$failed

tests-oldest:
	$(MAKE) PIPFLAGS="--constraint tests/oldest.txt" PYTESTFLAGS="$(PYTESTFLAGS) --ignore tests/test_docs.py --ignore tests/test_site.py" tests

tests-newest:
	$(MAKE) PIPFLAGS="--upgrade --upgrade-strategy eager" tests

verify: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m long

# Frozen with the code of BASE and compared with this one's, by the same script and in the same environment.
BASE ?= HEAD
golden: $(VENV)/.installed-dev
	@set -e; place=$$(mktemp -d); trap 'git worktree remove --force "$$place/base"; rm -rf "$$place"' EXIT; \
	git worktree add --quiet --detach "$$place/base" $(BASE); \
	PYTHONPATH="$$place/base/src" $(BIN)/python tests/golden.py freeze "$$place/frozen" >/dev/null; \
	PYTHONPATH=src $(BIN)/python tests/golden.py check "$$place/frozen"

# OPTIONS are those of python -m reproduction --help.
EXPERIMENT ?= all
reproduce: $(VENV)/.installed
	@$(BIN)/python -m reproduction $(EXPERIMENT) $(OPTIONS)

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .venv-*-oldest .venv-*-newest docs/_build docs/gallery docs/api/generated docs/jupyter_execute

# A mark is set only after pip has succeeded, so that an interrupted install is mended by the next run.
$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[report]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(PIPFLAGS) --editable ".[dev]"
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-bench: pyproject.toml | $(VENV)/.made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,bench]"
	@touch $@ $(VENV)/.installed-dev $(VENV)/.installed

$(VENV)/.made:
	@set -e; found=; \
	if [ -e $(VENV) ] && [ ! -e $(VENV)/.begun ]; then \
	  echo "$(VENV) was not made by this Makefile: move or remove it first (make clean removes it)." >&2; exit 1; \
	fi; \
	for python in $(or $(PYTHON),python3 python3.13 python3.12 python3.11); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "vbsvm needs Python 3.11 or newer: install it, or name one with make $(MAKECMDGOALS) PYTHON=/path/to/python3." >&2; exit 1; \
	fi; \
	if ! "$$found" -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$found has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; \
	fi; \
	mkdir -p $(VENV); \
	touch $(VENV)/.begun; \
	"$$found" -m venv $(VENV); \
	touch $@
