# Verbs of the project. `make demo` and `make test` need only Python >= 3.11, pip and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test slow lint clean

# The main job end to end: simulate, train, score, save, plot (out/demo).
demo: $(VENV)/.train
	$(BIN)/scare demo --out out/demo

# Fast suite with doctests, linter, types and the import contract.
test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.train: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train]'
	touch $@

$(VENV)/.dev: $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[train,board,tflite,onnx,dev]'
	touch $@

clean:
	rm -rf $(VENV) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
