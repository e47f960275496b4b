# Two commands do everything on a bare machine with Python >= 3.11, make and gcc:
#   make demo   installs and trains three algorithms from one warm start, then one in a household, with pictures
#   make test   installs and runs lint, types and tests; skips by name what needs a missing tool
PYTHON ?= python3
VENV   ?= .venv
TORCH  ?= torch==2.13.0
BIN    := $(VENV)/bin
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check
# Small models are fastest on one thread; OpenMP threads that spin would take the other cores.
export OMP_WAIT_POLICY = passive
export HF_HUB_OFFLINE = 1

.PHONY: help demo test test-all lint format docs bench clean
help:
	@sed -n 's/^#   //p' Makefile; echo "make test-all | lint | format | docs | bench | clean"

$(VENV)/.base: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed, this is " + sys.version.split()[0] + "; name another: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	@touch $@

$(VENV)/.train: $(VENV)/.base
	$(PIP) "$(TORCH)" -e ".[train]"
	@touch $@

# The real ALFWorld engine is compiled: about 5 minutes the first time, from pip's cache after that. Its build calls
# `python`, which many machines only have as python3: the one of the environment is put in front.
$(VENV)/.test: $(VENV)/.base
	$(PIP) "$(TORCH)" -e ".[train,webshop,retriever,verl,dev]"
	@if command -v g++ >/dev/null; then \
	  echo "installing the real ALFWorld engine (compiled once, about 5 minutes)"; PATH="$(abspath $(BIN)):$$PATH" $(PIP) "$(TORCH)" -e ".[alfworld]"; \
	else echo "no g++: the tests that compare with the real ALFWorld engine will be skipped"; fi
	@$(PIP) -e ".[e5]" || echo "no E5 weights for this platform: their tests will be skipped"
	@$(BIN)/agent-envs appworld install || echo "AppWorld could not be installed: the tests with its engine will be skipped"
	@touch $@

demo: $(VENV)/.train
	$(BIN)/python -m agent_envs.trainers.local.demo --out runs/demo

test: lint
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-all: lint
	$(BIN)/python -m pytest -m "not gpu"

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.base
	$(BIN)/python docs/build_env_pages.py

bench: $(VENV)/.test
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) runs dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
