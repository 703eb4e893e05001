# Verbs of the project. `make demo` and `make test` need only Python >= 3.11, pip and make (on Windows, Git's shell).
VENV := .venv
ifeq ($(OS),Windows_NT)
PYTHON ?= python
BIN    := $(VENV)/Scripts
else
PYTHON ?= python3
BIN    := $(VENV)/bin
endif
# What Python compiles is kept, whatever the shell says: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
C_FILES := $(wildcard runtime/src/*.[ch]* runtime/src/*/*.[ch] scare/board/*.c)

.PHONY: demo test slow fuzz lint format site lock dist arduino-library clean

# The main job end to end: simulate, train, score, save, plot (out/demo).
demo: $(VENV)/.train
	$(BIN)/scare demo --out out/demo

# Fast suite with doctests, linters, types, the import contract and the site.
test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

# A million hostile files and messages and as many pushes in C again, in hours; stopped anywhere, it goes on from there (out/fuzz).
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz

lint: $(VENV)/.dev site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FILES)

# The documentation (out/site/index.html); a broken link or a name that is gone is an error.
site: $(VENV)/.dev
	$(BIN)/zensical build --clean --strict

# The versions that the environment of a clone has, for all systems and Pythons at once. The newest backports-strenum
# excludes the Pythons that we support, which uv does not heed.
lock: .cache/tools
	.cache/tools/bin/uv pip compile pyproject.toml --quiet --upgrade --all-extras --universal --python-version 3.11 --no-annotate \
		--no-emit-package scare-calibration --no-emit-package backports-strenum --custom-compile-command "make lock" --output-file requirements.lock

# Wheel and source archive, and what they are built and tested with as CycloneDX, which `pip-audit` reads (dist).
dist: .cache/tools
	.cache/tools/bin/python -m build --outdir dist .
	.cache/tools/bin/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible --output-file dist/sbom.cdx.json

# Folders for the registries of libraries (out/libraries): Arduino, PlatformIO, ESP-IDF and Zephyr in one, and ESPHome.
arduino-library: $(VENV)/.train
	rm -rf out/libraries
	$(BIN)/python packaging/make_libraries.py out/libraries

.cache/tools:
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check build cyclonedx-bom uv

$(VENV)/.train: pyproject.toml requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[train]'
	touch $@

$(VENV)/.dev: $(VENV)/.train
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock -e '.[train,live,web,kafka,cluster,board,tflite,onnx,dev]'
	touch $@

clean:
	rm -rf $(VENV) .cache out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
