# annblock. `make help` lists the targets. Everything that is built goes to build/, each variant to a folder of its own.
VARIANT ?= release
CC ?= cc
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local
prefix ?= $(PREFIX)
bindir ?= $(prefix)/bin
libdir ?= $(prefix)/lib
includedir ?= $(prefix)/include
VALGRIND ?= valgrind
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

VERSION := $(shell sed -n 's/.*annb_version(void) { return "\([0-9.]*\)".*/\1/p' store/status.c)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))

B := build/$(VARIANT)
WERROR ?= -Werror
CFLAGS_release := -O2 -g
CFLAGS_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
CFLAGS_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
CFLAGS ?= $(CFLAGS_$(VARIANT))
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla $(WERROR)
BASE_CFLAGS := -std=c11 -D_POSIX_C_SOURCE=200809L $(WARNINGS) -Iinclude -pthread -fPIC -MMD -MP

# Short lines; V=1 shows the commands.
ifeq ($(V),)
Q := @
endif
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $@)

# Asked of pkg-config when first needed, so that `make demo` can install it first.
once = $(eval $(1) := $(2))$($(1))
pkg_cflags = $(shell $(PKG_CONFIG) --cflags $(1))
pkg_libs = $(shell $(PKG_CONFIG) --libs $(1))
HDF5 = $(call once,HDF5,$(shell $(PKG_CONFIG) --exists hdf5-serial && echo hdf5-serial || echo hdf5))
HDF5_CFLAGS = $(call once,HDF5_CFLAGS,$(patsubst -I%,-isystem %,$(call pkg_cflags,$(HDF5))))
HDF5_LIBS = $(call once,HDF5_LIBS,$(call pkg_libs,$(HDF5)))
STORE_CFLAGS = $(call once,STORE_CFLAGS,$(call pkg_cflags,liblz4 libxxhash nettle))
STORE_LIBS = $(call once,STORE_LIBS,$(call pkg_libs,liblz4 nettle))
DEFLATE_CFLAGS = $(call once,DEFLATE_CFLAGS,$(call pkg_cflags,libdeflate))
DEFLATE_LIBS = $(call once,DEFLATE_LIBS,$(call pkg_libs,libdeflate))
CLI_CFLAGS = $(call once,CLI_CFLAGS,$(call pkg_cflags,jansson))
CLI_LIBS = $(call once,CLI_LIBS,$(call pkg_libs,jansson))
CHECK_CFLAGS = $(call once,CHECK_CFLAGS,$(call pkg_cflags,check))
CHECK_LIBS = $(call once,CHECK_LIBS,$(call pkg_libs,check))

PUBLIC := $(sort $(wildcard include/annblock/*.h))
STORE_SRC := $(sort $(wildcard store/*.c store/*/*.c reader/*.c reader/*/*.c))
CONVERT_SRC := $(sort $(filter-out convert/cli/%,$(wildcard convert/*.c convert/*/*.c)))
CLI_SRC := $(sort $(wildcard convert/cli/*.c))
EXAMPLE_SRC := $(sort $(wildcard examples/*.c))
mains = $(sort $(if $(1),$(shell grep -l '^int main\b' $(1))))
BENCH_ALL := $(wildcard bench/*.c)
BENCH_SRC := $(call mains,$(BENCH_ALL))
PEER_SRC := $(sort $(wildcard bench/peer_*.c))
TEST_SRC := $(sort $(wildcard tests/test_*.c))
TOOL_SRC := $(filter-out $(TEST_SRC),$(call mains,$(wildcard tests/*.c)))
HELPER_SRC := $(filter-out $(TEST_SRC) $(TOOL_SRC),$(sort $(wildcard tests/*.c)))
objects = $(patsubst %.c,$(B)/obj/%.o,$(1))

STATIC := $(B)/libannblock.a
STATIC_CONVERT := $(B)/libannblock-convert.a
SHARED := $(B)/libannblock.so
SHARED_CONVERT := $(B)/libannblock-convert.so
CLI := $(B)/annblock
EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(EXAMPLE_SRC))
BENCHES := $(patsubst bench/%.c,$(B)/bench/%,$(BENCH_SRC))
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SRC))
TOOLS := $(patsubst tests/%.c,$(B)/tests/%,$(TOOL_SRC))

# Real files to test against, when they are there; the tests pass without them.
export H5AD_DIR ?= $(abspath $(wildcard ../shared/h5ad))

.PHONY: all lib cli examples tests help demo check check-c check-asan check-tsan check-valgrind check-aarch64 check-long check-torch
.PHONY: check-install check-peers bench bench-programs bench-python bench-python-peers bench-codec bench-loader bench-convert fuzz install uninstall clean
.PHONY: deps deps-test deps-bench venv package
.DELETE_ON_ERROR:
.SECONDARY:

all: lib cli examples ## build libraries, command and examples (the default)
lib: $(STATIC) $(STATIC_CONVERT) $(SHARED) $(SHARED_CONVERT)
cli: $(CLI)
examples: $(EXAMPLES)
tests: $(TESTS) $(TOOLS)

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24
	@echo '  VARIANT=asan builds with sanitizers; H5AD=FILE chooses the file of the demo; WERROR= lets warnings pass; V=1 shows commands'

# ---- compile ----

$(B)/obj/store/%.o $(B)/obj/reader/%.o: MODULE_CFLAGS = $(STORE_CFLAGS)
$(B)/obj/convert/%.o: MODULE_CFLAGS = $(STORE_CFLAGS) $(HDF5_CFLAGS) $(DEFLATE_CFLAGS)
$(B)/obj/convert/cli/%.o: MODULE_CFLAGS = $(CLI_CFLAGS)
$(B)/obj/tests/%.o: MODULE_CFLAGS = $(STORE_CFLAGS) $(HDF5_CFLAGS) $(DEFLATE_CFLAGS) $(CHECK_CFLAGS)
$(B)/obj/bench/%.o: MODULE_CFLAGS = $(STORE_CFLAGS) $(HDF5_CFLAGS) $(DEFLATE_CFLAGS)
SIMDE_CFLAGS := -Wno-psabi -fwrapv # vectors are passed inside the file only; SIMDe lets signed lanes wrap
$(B)/obj/tests/avx512_emulated.o: MODULE_CFLAGS += $(SIMDE_CFLAGS)

$(B)/obj/%.o: %.c Makefile
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(MODULE_CFLAGS) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# ---- libraries: only what the public headers declare is exported ----

$(STATIC): $(call objects,$(STORE_SRC))
$(STATIC_CONVERT): $(call objects,$(CONVERT_SRC))
$(B)/libtests.a: $(call objects,$(HELPER_SRC))
$(B)/libbench.a: $(call objects,$(filter-out $(BENCH_SRC) $(PEER_SRC),$(BENCH_ALL)))
$(B)/%.a:
	$(call say,AR)
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(B)/libannblock.map: $(PUBLIC) scripts/exports.sh
	@mkdir -p $(@D)
	$(Q)CC='$(CC)' scripts/exports.sh --map store > $@
$(B)/libannblock-convert.map: $(PUBLIC) scripts/exports.sh
	@mkdir -p $(@D)
	$(Q)CC='$(CC)' scripts/exports.sh --map convert > $@

DEFS_release := -Wl,-z,defs # a sanitizer's symbols come from the program
link_shared = $(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,-soname,$(notdir $@).$(SOVERSION) \
  -Wl,--version-script,$(@:.so=.map) $(DEFS_$(VARIANT)) -o $@.$(VERSION)
shared_links = ln -sf $(notdir $@).$(VERSION) $@.$(SOVERSION) && ln -sf $(notdir $@).$(VERSION) $@

$(SHARED): $(call objects,$(STORE_SRC)) $(B)/libannblock.map
	$(call say,LINK)
	$(Q)$(link_shared) $(filter %.o,$^) $(STORE_LIBS)
	$(Q)$(shared_links)
# Public functions come from libannblock; the private helpers it does not export are linked in from the archive.
$(SHARED_CONVERT): $(call objects,$(CONVERT_SRC)) $(B)/libannblock-convert.map $(SHARED) $(STATIC)
	$(call say,LINK)
	$(Q)$(link_shared) $(filter %.o,$^) $(SHARED) $(STATIC) $(HDF5_LIBS) $(DEFLATE_LIBS) $(STORE_LIBS)
	$(Q)$(shared_links)

# ---- programs ----

$(CLI): $(call objects,$(CLI_SRC)) $(STATIC_CONVERT) $(STATIC)
	$(call say,LINK)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $(HDF5_LIBS) $(DEFLATE_LIBS) $(STORE_LIBS) $(CLI_LIBS) -lm
$(B)/examples/%: $(B)/obj/examples/%.o $(STATIC)
	$(call say,LINK)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $(STORE_LIBS)
# The compressors that only bench/codec compares with.
$(B)/bench/codec: $(call objects,$(PEER_SRC))
$(B)/bench/codec: PEER_LIBS = $(call pkg_libs,libzstd) -lblosc
$(B)/bench/%: $(B)/obj/bench/%.o $(B)/libbench.a $(STATIC_CONVERT) $(STATIC)
	$(call say,LINK)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $(filter %.o,$^) $(filter %.a,$^) $(HDF5_LIBS) $(DEFLATE_LIBS) $(STORE_LIBS) $(PEER_LIBS) -lm
# Archives, so that a test links only the modules it reaches.
$(B)/tests/%: $(B)/obj/tests/%.o $(B)/libtests.a $(STATIC_CONVERT) $(STATIC)
	$(call say,LINK)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -pthread -o $@ $^ $(HDF5_LIBS) $(DEFLATE_LIBS) $(STORE_LIBS) $(CHECK_LIBS) -lm

# ---- what has to be installed ----

deps: ## install what building needs (Debian, Ubuntu), or name it
	@scripts/deps.sh build
deps-test:
	@scripts/deps.sh build test
deps-bench:
	@scripts/deps.sh build bench

# Virtual environments of the Python tests, with what the files name that they depend on.
VENV := build/venv
VENV_TORCH := build/venv-torch
VENV_PEERS := build/venv-peers
VENV_ANNBATCH := build/venv-annbatch
$(VENV)/.ready: tests/requirements.txt
$(VENV_TORCH)/.ready: tests/requirements.txt tests/requirements-torch.txt
$(VENV_PEERS)/.ready: tests/requirements.txt tests/requirements-torch.txt tests/requirements-peers.txt
$(VENV)/.ready $(VENV_TORCH)/.ready $(VENV_PEERS)/.ready:
	@mkdir -p build
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install -qq $(^:%=--requirement %)
	@touch $@
venv: $(VENV)/.ready
# What pip left in build/lib.* would go into the package again.
install_package = rm -rf build/lib build/lib.* && $(1)/bin/pip install -qq --no-build-isolation --no-deps .
package: venv ## install the Python package into build/venv, for its tests
	@$(call install_package,$(VENV))

# ---- run ----

demo: deps ## pack, look at, read, export and compare a small file; H5AD=FILE for your own
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@CLI=$(CLI) EXAMPLES=$(B)/examples examples/demo.sh $(if $(H5AD),'$(H5AD)')

check: deps-test ## all tests
	@$(MAKE) --no-print-directory -j$(JOBS) all tests venv package
	@B=$(B) tests/run.sh c scripts python package

check-c: ## the C tests only; T=NAME for one of them
	@$(MAKE) --no-print-directory -j$(JOBS) $(if $(T),$(B)/tests/$(basename $(notdir $(T))),tests)
	@B=$(B) T=$(T) tests/run.sh c

check-asan: deps-test ## C tests and round trips under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory -j$(JOBS) VARIANT=asan cli tests venv
	@B=build/asan tests/run.sh c python

TSAN_TESTS := test_loader test_reader test_fetch test_fetch_threads test_union test_pipeline test_stream test_matrix_writer test_transpose \
  test_windows test_parts test_pack test_export test_export_stops
check-tsan: ## tests with threads under ThreadSanitizer
	@$(MAKE) --no-print-directory -j$(JOBS) VARIANT=tsan $(TSAN_TESTS:%=build/tsan/tests/%)
	@for t in $(TSAN_TESTS); do B=build/tsan T=$$t TSAN_OPTIONS='halt_on_error=1 die_after_fork=0' tests/run.sh c || exit 1; done

LEAKS := --leak-check=full --show-leak-kinds=definite,possible --errors-for-leak-kinds=definite
check-valgrind: ## C tests under valgrind
	@scripts/deps.sh build test valgrind
	@$(MAKE) --no-print-directory -j$(JOBS) tests
	@B=$(B) CK_FORK=no RUNNER='$(VALGRIND) -q --error-exitcode=99 $(LEAKS)' tests/run.sh c

check-aarch64: ## kernels and Rice codecs for aarch64, cross-built and run under QEMU
	@scripts/deps.sh aarch64
	@tests/cross/run.sh

check-long: deps-test ## all tests and the slow ones (minutes, gigabytes)
	@$(MAKE) --no-print-directory -j$(JOBS) all tests venv package
	@B=$(B) ANNB_TEST_LONG=1 tests/run.sh c scripts python package

check-torch: deps-test $(VENV_TORCH)/.ready ## the Python loader with torch: workers, torch.distributed, resuming, training
	@$(call install_package,$(VENV_TORCH))
	@VENV=$(VENV_TORCH) tests/run.sh torch

check-install: ## pip install from the checkout, the sdist and the wheel, each followed by README's Python examples
	@scripts/deps.sh build python
	@PYTHON='$(PYTHON)' tests/install.sh build/install

check-peers: deps-test $(VENV_PEERS)/.ready ## the package beside scDataset, Lightning, scvi-tools and annbatch (where there is a Python 3.12)
	@$(call install_package,$(VENV_PEERS))
	@scripts/newer_venv.sh $(VENV_ANNBATCH) tests/requirements.txt tests/requirements-annbatch.txt
	@[ ! -e $(VENV_ANNBATCH) ] || { $(call install_package,$(VENV_ANNBATCH)); }
	@VENV=$(VENV_PEERS) VENV_ANNBATCH=$(VENV_ANNBATCH) tests/run.sh peers annbatch

bench: deps-bench ## build everything in bench/ and run the benchmarks bench_*
	@$(MAKE) --no-print-directory -j$(JOBS) bench-programs
	@for b in $(filter $(B)/bench/bench_%,$(BENCHES)); do echo "== $$b"; $$b || exit 1; done
bench-python: ## measure the Python loader beside the C loader; BENCH_ARGS='STORE [--h5ad FILE] …', see bench/python/loader.py --help
bench-python: deps-bench $(VENV_TORCH)/.ready
	@$(call install_package,$(VENV_TORCH))
	@$(VENV_TORCH)/bin/python bench/python/loader.py $(BENCH_ARGS)
bench-python-peers: ## measure it beside annbatch, scDataset and cellstream; BENCH_ARGS='--h5ad FILE --store DIR …', see bench/python/peers.py --help
bench-python-peers: deps-bench $(VENV_TORCH)/.ready
	@$(MAKE) --no-print-directory -j$(JOBS) bench-programs
	@$(call install_package,$(VENV_TORCH))
	@$(VENV_TORCH)/bin/pip install -qq --no-deps "$$(grep '^scDataset==' tests/requirements-peers.txt)" || echo "bench: scDataset could not be installed: without it" >&2
	@scripts/newer_venv.sh build/venv-bench bench/requirements.txt
	@$(VENV_TORCH)/bin/python bench/python/peers.py $(BENCH_ARGS)
bench-codec: ## measure record codecs and stores beside memcpy; BENCH_ARGS='[FILE.h5ad] [--store DIR] …', see build/release/bench/codec --help
bench-codec: deps-bench
	@$(MAKE) --no-print-directory -j$(JOBS) bench-programs
	@$(B)/bench/codec $(BENCH_ARGS)
LOADER_DIR ?= build/bench-loader
bench-loader: ## measure the loader beside memcpy and random reads; LOADER_STORE=DIR for a store of your own, LOADER_ARGS='--repeats 5 …'
bench-loader: deps-bench
	@$(MAKE) --no-print-directory -j$(JOBS) bench-programs cli
	@[ -n '$(LOADER_STORE)' ] || [ -d $(LOADER_DIR)/cells.annblock/manifests ] || { mkdir -p $(LOADER_DIR) && \
	  $(B)/bench/gen -n 30000 $(LOADER_DIR)/cells.h5ad && $(CLI) pack $(LOADER_DIR)/cells.h5ad -o $(LOADER_DIR)/cells.annblock && \
	  rm $(LOADER_DIR)/cells.h5ad; }
	@$(B)/bench/loader $(or $(LOADER_STORE),$(LOADER_DIR)/cells.annblock --thin $(LOADER_DIR)/thin.annblock) $(LOADER_ARGS)
bench-convert: ## measure packing and export beside annbatch, cellstream and anndata; BENCH_ARGS='--cells 300000 --genes 30000 …', see bench/convert.py --help
bench-convert: deps-bench
	@$(MAKE) --no-print-directory -j$(JOBS) bench-programs
	@scripts/newer_venv.sh build/venv-bench bench/requirements.txt
	@$(PYTHON) bench/convert.py --build $(B) $(BENCH_ARGS)
fuzz: ## compile the fuzz driver of the record decoders with sanitizers and run FUZZ_N inputs of each codec (10000000)
	@mkdir -p build/fuzz
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS_asan) $(SIMDE_CFLAGS) -c -o build/fuzz/avx512_emulated.o tests/avx512_emulated.c
	$(Q)$(CC) $(BASE_CFLAGS) -MF build/fuzz/records.d $(STORE_CFLAGS) $(CFLAGS_asan) -o build/fuzz/records tests/fuzz/*.c \
	  build/fuzz/avx512_emulated.o $(wildcard store/*.c store/*/*.c) $(STORE_LIBS)
	@for c in plain lz4 count dict; do build/fuzz/records $(or $(FUZZ_N),10000000) 1 $$c || exit 1; done
bench-programs: $(BENCHES)

# ---- install ----

install: all ## install to DESTDIR/prefix (default /usr/local)
	install -d $(DESTDIR)$(bindir) $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir)/annblock
	install -m 755 $(CLI) $(DESTDIR)$(bindir)/annblock
	install -m 644 $(PUBLIC) $(DESTDIR)$(includedir)/annblock/
	install -m 644 $(STATIC) $(STATIC_CONVERT) $(DESTDIR)$(libdir)/
	for l in libannblock libannblock-convert; do \
	  install -m 755 $(B)/$$l.so.$(VERSION) $(DESTDIR)$(libdir)/ && \
	  ln -sf $$l.so.$(VERSION) $(DESTDIR)$(libdir)/$$l.so.$(SOVERSION) && \
	  ln -sf $$l.so.$(VERSION) $(DESTDIR)$(libdir)/$$l.so || exit 1; \
	done
	for p in annblock annblock-convert; do \
	  sed -e 's|@prefix@|$(prefix)|; s|@libdir@|$(libdir)|; s|@includedir@|$(includedir)|; s|@version@|$(VERSION)|; s|@hdf5@|$(HDF5)|' \
	    scripts/$$p.pc.in > $(DESTDIR)$(libdir)/pkgconfig/$$p.pc || exit 1; \
	done
	@DESTDIR='$(DESTDIR)' PKG_CONFIG='$(PKG_CONFIG)' scripts/after_install.sh '$(libdir)' '$(bindir)'

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(bindir)/annblock $(addprefix $(DESTDIR)$(includedir)/annblock/,$(notdir $(PUBLIC)))
	rm -f $(foreach l,libannblock libannblock-convert,$(addprefix $(DESTDIR)$(libdir)/$(l),.a .so .so.$(SOVERSION) .so.$(VERSION)))
	rm -f $(addprefix $(DESTDIR)$(libdir)/pkgconfig/,annblock.pc annblock-convert.pc)
	-rmdir $(DESTDIR)$(includedir)/annblock

clean: ## remove build/
	rm -rf build

-include $(wildcard $(B)/obj/*/*.d $(B)/obj/*/*/*.d)
