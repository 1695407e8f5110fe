# SPDX-License-Identifier: MIT
# Propane's build. `make help` lists the targets. MODE selects the build folder: build/release, build/asan, ...
MODE   ?= release
BUILD  ?= build/$(MODE)
CC     ?= cc
PREFIX ?= /usr/local
Q      := $(if $(V),,@)
# Prints one line for each product and for each folder of objects. V=1 prints the commands instead; 'make -s' prints
# nothing.
QUIET  := $(or $(V),$(findstring s,$(filter-out --%,$(firstword -$(MAKEFLAGS)))))
say     = $(if $(QUIET)$(said_$(2)),,$(info $(1) $(2))$(eval said_$(2) := 1))
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN 2> /dev/null || echo 2)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
            -Wundef -Wvla -Wno-unused-parameter -Wno-missing-field-initializers
OPTIMISE := -O2
SYMBOLS  := -g
SANITIZE :=
ifeq ($(MODE),debug)
OPTIMISE := -O0
endif
ifeq ($(MODE),asan)
OPTIMISE := -O1
SYMBOLS  := -g1# lines, which their reports print; half the disk of -g
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
ifeq ($(MODE),tsan)
OPTIMISE := -O1
SYMBOLS  := -g1
SANITIZE := -fsanitize=thread -fno-omit-frame-pointer
endif

# Libraries that macOS and Debian provide through pkg-config; tools/setup installs them.
PKG      ?= pkg-config
# Optional parts: those whose libraries are installed, except those named in WITHOUT="lm server images editing".
# 'propane version' lists them. The server needs lm, the language models.
part      = $(if $(filter $(1),$(WITHOUT)),,$(if $(shell $(PKG) --exists $(2) 2> /dev/null && echo yes),$(1)))
ifndef PARTS
PARTS    := $(strip $(if $(filter lm,$(WITHOUT)),,lm $(call part,server,libmicrohttpd)) $(call part,images,libpng libjpeg) $(call part,editing,libedit))
endif
has       = $(filter $(1),$(PARTS))
COMMAND_PACKAGES := $(if $(call has,server),libmicrohttpd) $(if $(call has,editing),libedit)
PACKAGES := $(strip jansson libpcre2-8 libutf8proc libprotobuf-c $(if $(call has,images),libpng libjpeg) zlib $(COMMAND_PACKAGES))
PUBLIC_PACKAGES := $(filter-out $(COMMAND_PACKAGES),$(PACKAGES))
PKG_CFLAGS := $(shell $(PKG) --cflags $(PACKAGES) 2>/dev/null)
PKG_LIBS   := $(shell $(PKG) --libs $(PACKAGES) 2>/dev/null || echo -ljansson -lpcre2-8 -lutf8proc -lprotobuf-c \
    $(if $(call has,images),-lpng -ljpeg) -lz $(if $(call has,server),-lmicrohttpd) $(if $(call has,editing),-ledit))
CHECK_CFLAGS := $(shell $(PKG) --cflags check 2>/dev/null)
CHECK_LIBS   := $(shell $(PKG) --libs check 2>/dev/null || echo -lcheck)

# Code that protoc-c generates from src/core/mil/coreml/coreml.proto; never committed.
GEN      := $(BUILD)/gen
PROTOC   ?= $(shell command -v protoc-c || echo protoc)

# -ffp-contract=off gives the same sums with every compiler; kernels request fused multiply-adds explicitly.
CFLAGS   ?= $(OPTIMISE) $(SYMBOLS)
# -fPIC lets the archive and the shared library use the same objects. They export only what include/propane.h declares.
override CFLAGS += -std=c11 -fPIC -D_GNU_SOURCE -ffp-contract=off $(WARNINGS) $(if $(WERROR),-Werror) $(SANITIZE) -MMD -MP \
            -Iinclude -Isrc -I. -I$(GEN) $(PKG_CFLAGS)
SYSTEM_LIBS = -lm -lpthread -ldl $(if $(filter dylib,$(SHARED)),,-lrt)# shm_open, before glibc 2.34
LDLIBS    = $(PKG_LIBS) $(SYSTEM_LIBS)
LDFLAGS  += $(SANITIZE)
# The files that depend on which parts are built.
PARTS_OBJ = $(BUILD)/src/core/base/image.o $(BUILD)/apps/propane/cmd/cmd_version.o $(BUILD)/apps/propane/cmd/line_editor.o

LIB_SRC  := $(sort $(shell find src apps/ane-lab/macho $(if $(call has,server),apps/serve) -name '*.c'))
LIB_SRC  := $(if $(call has,lm),$(filter-out src/without_lm.c,$(LIB_SRC)),$(filter-out src/lm/% src/report/lm/%,$(LIB_SRC)))
CLI_SRC  := $(sort $(shell find apps/propane apps/ane-lab/probe -name '*.c' -not -name $(if $(call has,server),cmd_serve_none.c,cmd_serve.c)))
# Tests, fuzz targets, benches and examples that use language models; without lm they are left out.
OF_LM    := $(if $(call has,lm),,$(shell grep -lE '"(lm|report/lm|apps/serve)/|"support/(arch_data|small_model)|"train/(eval_driver|reference)\.h|propane_(model|generator|chat|tokenizer|corpus|plan|where|estimate_training)|where_trial|PROPANE_TRAIN_LANGUAGE' \
    tests/*/*.c fuzz/*.c bench/*.c examples/*.c examples/library/*.c examples/library/*.cc))
TEST_SRC := $(sort $(filter-out $(OF_LM) $(if $(call has,server),,tests/serve/%) $(if $(call has,images),,%/test_picture.c),$(wildcard tests/*/test_*.c)))
SUPPORT_SRC := $(sort $(filter-out $(OF_LM),$(wildcard tests/support/*.c)))
BENCH_SRC := $(sort $(filter-out $(OF_LM),$(wildcard bench/bench_*.c)))
EXAMPLE_SRC := $(sort $(filter-out $(OF_LM),$(wildcard examples/*.c examples/library/*.c)))
FUZZ_SRC := $(sort $(filter-out $(OF_LM) $(if $(call has,server),,%/fuzz_http_body.c) $(if $(call has,images),,%/fuzz_image.c),$(wildcard fuzz/fuzz_*.c)))

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o) $(GEN)/core/mil/coreml/coreml.pb-c.o
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/%.o)
SUPPORT_OBJ := $(SUPPORT_SRC:%.c=$(BUILD)/%.o)
# TESTS="base cli" builds and runs only the tests whose names contain one of these words, as in tests/run.sh.
asked     = $(if $(TESTS),$(foreach p,$(1),$(if $(strip $(foreach t,$(TESTS),$(findstring $(t),$(p)))),$(p))),$(1))
TEST_BIN := $(call asked,$(TEST_SRC:%.c=$(BUILD)/%))
BENCH_BIN := $(BENCH_SRC:%.c=$(BUILD)/%)
ORACLE   := tests/oracle/oracle# what tools/oracle.sh asks
# One example is in C++ and needs the C++ compiler that matches $(CC); without that compiler, the example is left out.
CXX_OF   := $(if $(findstring clang,$(CC)),$(subst clang,clang++,$(CC)),$(if $(findstring gcc,$(CC)),$(subst gcc,g++,$(CC)),c++))
EXAMPLE_CC  := $(if $(shell command -v $(lastword $(CXX_OF)) 2> /dev/null),$(sort $(filter-out $(OF_LM),$(wildcard examples/library/*.cc))))
EXAMPLE_BIN := $(EXAMPLE_SRC:%.c=$(BUILD)/%) $(EXAMPLE_CC:%.cc=$(BUILD)/%)
FUZZ_BIN := $(call asked,$(FUZZ_SRC:%.c=$(BUILD)/%))
# The command, tests and benches link every object, including the server. The public library has no server. It consists
# of an archive with a single object, whose hidden names are local, and a shared library.
LIB      := $(BUILD)/internal.a
SHARED   ?= $(if $(filter Darwin,$(shell uname -s)),dylib,so)
ABI      := 0
PUBLIC_A := $(BUILD)/libpropane.a
PUBLIC_SO := $(BUILD)/libpropane.$(if $(filter dylib,$(SHARED)),$(ABI).dylib,so.$(ABI))
PUBLIC_OBJ := $(filter-out $(BUILD)/apps/%,$(LIB_OBJ))
PUBLIC_LIBS = $(shell $(PKG) --libs $(PUBLIC_PACKAGES) 2>/dev/null || echo $(filter-out -lmicrohttpd -ledit,$(PKG_LIBS))) $(SYSTEM_LIBS)
RELINK   ?= $(CC) -r -nostdlib
OBJCOPY  ?= objcopy
BIN      := $(BUILD)/propane
TRACE    := $(BUILD)/libpropane-trace.$(SHARED)

.PHONY: all help setup packages macos tests check check-all demo bench benches examples asan tsan memcheck fuzz layers circles sizes paths format compdb install install-files uninstall pages dist parts clean python-check wheel site
.DEFAULT_GOAL := all
all: $(PUBLIC_A) $(PUBLIC_SO) $(if $(CLI_SRC),$(BIN) $(TRACE)) ## build the library and the command

help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z -]*:.*## / { printf "%-15s %s\n", $$1, $$2 }' Makefile

# This file is rewritten when the flags change, so that all objects are built again.
# (-Werror does not change objects, and the build folder may be named in two ways.)
FLAGS_NOW := $(subst ','\'',$(filter-out -Werror -I$(GEN),$(CFLAGS)))
$(if $(filter-out help clean setup packages public-packages parts version,$(or $(MAKECMDGOALS),all)),$(shell mkdir -p $(BUILD) && { \
    printf '%s\n' '$(FLAGS_NOW)' | cmp -s - $(BUILD)/flags || printf '%s\n' '$(FLAGS_NOW)' > $(BUILD)/flags; \
    echo '$(PARTS)' | cmp -s - $(BUILD)/parts || echo '$(PARTS)' > $(BUILD)/parts; }))

$(PARTS_OBJ): override CFLAGS += $(if $(call has,lm),-DPROPANE_LM) $(if $(call has,server),-DPROPANE_SERVER) $(if $(call has,images),-DPROPANE_IMAGES) $(if $(call has,editing),-DPROPANE_EDITING)
# Without this flag, GCC does not vectorize loops with comparisons, in order to preserve exception flags that nothing
# reads. Results are the same.
$(BUILD)/src/lm/files/gguf_encode.o: override CFLAGS += -fno-trapping-math
$(PARTS_OBJ) $(BIN): $(BUILD)/parts

# The vector kernels take a quarter of the build time, and a third of that is spent on debugging information about
# variables.
lines_only = $(if $(and $(filter -O2,$(CFLAGS)),$(filter -g,$(CFLAGS)),$(filter src/cpu/simd/kernels_%,$(1))),-g1)
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)$(call say,cc     ,$(<D))
	$(Q)$(CC) $(CFLAGS) $(call lines_only,$<) $(if $(filter tests/%,$<),-Itests $(CHECK_CFLAGS),$(if $(filter src/% apps/%,$<),-fvisibility=hidden)) -c $< -o $@

$(GEN)/core/mil/coreml/coreml.pb-c.c $(GEN)/core/mil/coreml/coreml.pb-c.h: src/core/mil/coreml/coreml.proto
	@mkdir -p $(GEN)/core/mil/coreml
	$(Q)$(PROTOC) --c_out=$(GEN)/core/mil/coreml -Isrc/core/mil/coreml src/core/mil/coreml/coreml.proto
$(GEN)/core/mil/coreml/coreml.pb-c.o: $(GEN)/core/mil/coreml/coreml.pb-c.c $(BUILD)/flags
	$(Q)$(CC) $(CFLAGS) -fvisibility=hidden -w -c $< -o $@
$(filter $(BUILD)/src/core/mil/coreml/package%,$(LIB_OBJ)): $(GEN)/core/mil/coreml/coreml.pb-c.h

# The functions that refuse in a library without language models.
$(GEN)/without_lm.inc: src/without_lm.awk include/propane/lm.h
	@mkdir -p $(@D)
	$(Q)awk -f $^ > $@
$(BUILD)/src/without_lm.o: $(GEN)/without_lm.inc

# The server's page as a list of C strings, one per line.
$(GEN)/apps/serve/page.inc: apps/serve/page.html
	@mkdir -p $(@D)
	$(Q)sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n",/' $< > $@
$(BUILD)/apps/serve/http_page.o: $(GEN)/apps/serve/page.inc

# The parts of the page of 'propane show --html', as bytes in C.
PAGE_PARTS := graph.css graph.html layout.js view.js main.js
$(GEN)/report/page/%.inc: src/report/page/%
	@mkdir -p $(@D)
	$(Q)od -An -v -tu1 $< | sed 's/\([0-9][0-9]*\)/\1,/g' > $@
$(BUILD)/src/report/page/page_assets.o: $(PAGE_PARTS:%=$(GEN)/report/page/%.inc)
# The same for report.html.
$(GEN)/report/run/%.inc: src/report/run/page/%
	@mkdir -p $(@D)
	$(Q)od -An -v -tu1 $< | sed 's/\([0-9][0-9]*\)/\1,/g' > $@
$(BUILD)/src/report/run/html_report.o: $(GEN)/report/run/report.css.inc $(GEN)/report/run/report.js.inc

# The script that runs chat templates.
$(GEN)/lm/text/chat_jinja.inc: src/lm/text/chat_jinja.py
	@mkdir -p $(@D)
	$(Q)od -An -v -tu1 $< | sed 's/\([0-9][0-9]*\)/\1,/g' > $@
$(BUILD)/src/lm/text/chat_jinja.o: $(GEN)/lm/text/chat_jinja.inc

comma := ,

$(LIB): $(LIB_OBJ)
	@rm -f $@$(call say,archive,$@)
	$(Q)$(AR) rcs $@ $^

# macOS's linker makes hidden names local by itself. If no linker can do that (RELINK is empty), the objects are
# archived unchanged.
$(PUBLIC_A): $(PUBLIC_OBJ)
	@rm -f $@$(call say,archive,$@)
ifeq ($(RELINK),)
	$(Q)$(AR) rcs $@ $^
else
	$(Q)$(RELINK) $^ -o $(BUILD)/propane.o
	$(Q)$(if $(filter dylib,$(SHARED)),true,$(OBJCOPY) --localize-hidden $(BUILD)/propane.o)
	$(Q)$(AR) rcs $@ $(BUILD)/propane.o
endif

$(PUBLIC_SO): $(PUBLIC_OBJ)
	@$(call say,link   ,$@)
	$(Q)$(CC) $(LDFLAGS) -shared $^ $(PUBLIC_LIBS) -o $@ \
	    $(if $(filter dylib,$(SHARED)),-install_name @rpath/$(@F),-Wl$(comma)-soname$(comma)$(@F) -Wl$(comma)-z$(comma)defs)
	@ln -sf $(@F) $(BUILD)/libpropane.$(SHARED)

$(BIN): $(CLI_OBJ) $(LIB)
	@$(call say,link   ,$@)
	$(Q)$(CC) $(LDFLAGS) $(CLI_OBJ) $(LIB) $(LDLIBS) -o $@

# The library that 'propane trace' loads into other programs. It is independent of libpropane and is built without
# sanitizers.
$(TRACE): apps/ane-lab/trace/trace.c apps/ane-lab/trace/stubs.S src/ane/driver/syms.def
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS)) $(LDFLAGS) -fPIC -shared $(filter-out %.def,$^) -lpthread -ldl -o $@
$(TRACE): SANITIZE :=

# Files that the tests of one folder share: those that are neither tests nor programs.
.SECONDEXPANSION:
shared = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(OF_LM) tests/$(1)/test_% $(ORACLE).c,$(wildcard tests/$(1)/*.c)))
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT_OBJ) $$(call shared,$$(*D)) $(LIB)
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(LIB) $(CHECK_LIBS) $(LDLIBS) -o $@

# Tests of the ane driver load this instead of Apple's libraries. It contains a copy of Propane's library, which the
# list of exports hides. It is not built on a Mac, which has the real libraries.
STANDIN     := $(if $(filter Darwin,$(shell uname)),,$(BUILD)/tests/standin/libstandin.so)
STANDIN_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/standin/*.c))
$(STANDIN_OBJ): override CFLAGS += -Wno-missing-prototypes \
    $(if $(and $(SANITIZE),$(findstring clang,$(CC))),-fno-sanitize=function)
$(STANDIN): $(STANDIN_OBJ) $(LIB) tests/standin/exports.map
	$(Q)$(CC) $(LDFLAGS) -shared $(STANDIN_OBJ) $(LIB) -Wl,--version-script=tests/standin/exports.map $(LDLIBS) -o $@

# Libraries that are preloaded into commands to make memory requests fail, writes stop or ranks run slowly. They need
# Linux with glibc, and a build without sanitizers, which have their own malloc.
PRELOAD := $(if $(SANITIZE)$(filter-out Linux,$(shell uname)),,$(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/*/preload/*.c)))
$(PRELOAD): $(BUILD)/%.so: %.c tests/support/stack.h
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -fPIC -O1 -g -std=gnu11 $< -o $@

# The libraries that tests of the cpu driver load instead of a CBLAS.
CBLAS := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/cpu/cblas/*.c))
$(CBLAS): $(BUILD)/%.so: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) -shared -fPIC -O2 -g -std=c11 $(WARNINGS) $< -o $@

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(LIB)
	$(Q)$(CC) $(LDFLAGS) $< $(LIB) $(LDLIBS) -o $@

# Examples use only the public library.
$(BUILD)/examples/%: $(BUILD)/examples/%.o $(PUBLIC_A)
	$(Q)$(CC) $(LDFLAGS) $< $(PUBLIC_A) $(PUBLIC_LIBS) -o $@
$(EXAMPLE_CC:%.cc=$(BUILD)/%): $(BUILD)/%: %.cc $(PUBLIC_A)
	@mkdir -p $(@D)
	$(Q)$(CXX_OF) $(OPTIMISE) -g -std=c++17 -Wall -Wextra -Wpedantic $(if $(WERROR),-Werror) $(SANITIZE) -Iinclude $(LDFLAGS) $< $(PUBLIC_A) $(PUBLIC_LIBS) -o $@

# A fuzz target with a plain main that replays its corpus.
$(BUILD)/fuzz/%: $(BUILD)/fuzz/%.o $(BUILD)/fuzz/replay.o $(LIB)
	$(Q)$(CC) $(LDFLAGS) $^ $(LDLIBS) -o $@

tests: all $(TEST_BIN) $(if $(call has,lm),$(BUILD)/$(ORACLE)) $(EXAMPLE_BIN) $(FUZZ_BIN) $(STANDIN) $(PRELOAD) $(CBLAS) ## build the tests
	@printf '%s\n' $(OF_LM) > $(BUILD)/left-out # tests/run.sh names them
benches: all $(BENCH_BIN)
examples: all $(EXAMPLE_BIN)

# check, check-all and demo first install what is missing. The build then runs in a second make, which finds what was
# installed.
setup: ## install what is missing (apt-get or brew)
	$(Q)sh tools/setup

check check-all: setup ## build and test (check-all: also the long tests); needs no Python, network or Mac
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) tests
	$(Q)sh tools/doc_paths.sh
	$(Q)sh tools/portable.sh
	$(Q)TEST_ALL=$(if $(filter check-all,$@),1,$(TEST_ALL)) sh tests/run.sh $(BUILD) $(TESTS)

hard: setup ## make memory requests of library calls and commands fail, two per chain of calls (STACKS=0: every request; POINTS=N: a sample of those of commands)
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) tests
	$(Q)sh tests/hard/run.sh $(BUILD)

campaign: setup ## kill, stop, starve, mutate, soak and flood the programs (BUDGET=60: seconds per part; CAMPAIGN="kill stop": only these parts)
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) tests
	$(Q)sh tests/campaign/run.sh $(BUILD) $(CAMPAIGN)

demo: setup ## train a small model on this repository's text, or on TEXT=FILE, and generate text
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) all
	$(Q)sh tools/demo.sh $(BIN) $(TEXT)

bench: setup ## measure what docs/performance.md claims
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) benches
	$(Q)sh bench/run.sh $(BUILD)

asan tsan: setup ## run the tests under AddressSanitizer and UBSan, or ThreadSanitizer
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$@ tests
	$(Q)sh tests/run.sh build/$@ $(TESTS)

# Two tests are left out because they differ under valgrind: one times matrix products, the other starts a program that
# does not exist.
MEMCHECK := $(patsubst %.c,%,$(filter-out tests/cpu/test_blas.c tests/model/test_chat_jinja.c,$(wildcard tests/*/test_*.c)))
memcheck: setup ## run the tests under valgrind, which detects reads of uninitialised memory (TESTS="base/ mil/")
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(MODE) tests
	$(Q)TEST_RUNNER="valgrind -q --error-exitcode=9 --num-callers=30 --suppressions=tests/memcheck.supp" sh tests/run.sh $(BUILD) $(or $(TESTS),$(MEMCHECK))

fuzz: ## search for crashes with libFuzzer (FUZZ_SECONDS=60, FUZZ="mil blob")
	$(Q)sh fuzz/run.sh $(or $(FUZZ_SECONDS),60) $(FUZZ)

CLANG_FORMAT ?= clang-format
format: ## format the files that differ from main with clang-format (FILES=...: others)
	$(Q)$(CLANG_FORMAT) -i $(or $(FILES),$(shell git diff --name-only --diff-filter=AM main -- '*.c' '*.h'))

compdb: ## write compile_commands.json for editors
	$(Q)sh tools/compdb.sh '$(CC) $(filter-out -MMD -MP,$(CFLAGS))' $(LIB_SRC) $(CLI_SRC) > compile_commands.json

# ---- installing ----------------------------------------------------------------------------------------------------------------

MANDIR    ?= $(PREFIX)/share/man
BASH_COMPLETIONS ?= $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS  ?= $(PREFIX)/share/zsh/site-functions
FISH_COMPLETIONS ?= $(PREFIX)/share/fish/vendor_completions.d
PAGES     := $(BUILD)/pages
RUN_BIN   ?= $(BIN)# preceded by an emulator if this machine cannot run it

# The command itself prints the man pages and completions from its own tables.
pages: $(BIN) ## write man pages and shell completions to build/release/pages
	$(Q)mkdir -p $(PAGES)/man
	$(Q)rm -f $(PAGES)/man/*
	$(Q)$(RUN_BIN) help --man > $(PAGES)/man/propane.1
	$(Q)set -e; for c in $$($(RUN_BIN) help --names); do $(RUN_BIN) help --man $$c > $(PAGES)/man/propane-$$c.1; done
	$(Q)set -e; for s in bash zsh fish; do $(RUN_BIN) completion $$s > $(PAGES)/propane.$$s; done

install: all pages ## install everything (PREFIX=/usr/local; DESTDIR for packages)
	$(Q)$(MAKE) --no-print-directory install-files

# Debugging information is nine tenths of a file, so it stays in the build folder. STRIP= installs it, too.
STRIP ?= $(shell command -v strip 2> /dev/null)
# Installs the existing build unchanged, because tests install it while other tests are running it.
to = $(DESTDIR)$(1)
install-files:
	@$(if $(QUIET),,echo '$(call to,$(PREFIX)): bin, lib, include$(if $(wildcard $(PAGES)/propane.fish),$(comma) man pages and completions)$(if $(UNITS),$(comma) a systemd unit)')
	$(Q)install -d $(call to,$(PREFIX)/bin) $(call to,$(PREFIX)/lib/pkgconfig) $(call to,$(PREFIX)/lib/cmake/propane) $(call to,$(PREFIX)/include/propane)
	$(Q)install -m 755 $(BIN) $(call to,$(PREFIX)/bin/)
	$(Q)install -m 644 $(PUBLIC_A) $(call to,$(PREFIX)/lib/)
	$(Q)install -m 755 $(PUBLIC_SO) $(call to,$(PREFIX)/lib/)
	$(Q)ln -sf $(notdir $(PUBLIC_SO)) $(call to,$(PREFIX)/lib/libpropane.$(SHARED))
	$(Q)install -m 755 $(TRACE) $(call to,$(PREFIX)/lib/)
	$(if $(STRIP),$(Q)$(STRIP) -S $(call to,$(PREFIX)/bin/propane) $(call to,$(PREFIX)/lib/$(notdir $(TRACE))) $(call to,$(PREFIX)/lib/$(notdir $(PUBLIC_SO))) $(call to,$(PREFIX)/lib/$(notdir $(PUBLIC_A))))
	$(Q)install -m 644 include/propane.h $(call to,$(PREFIX)/include/)
	$(Q)install -m 644 include/propane/*.h $(call to,$(PREFIX)/include/propane/)
	$(Q)$(call configured,tools/propane.pc.in) > $(call to,$(PREFIX)/lib/pkgconfig/propane.pc)
	$(Q)$(call configured,tools/propane-config.cmake.in) > $(call to,$(PREFIX)/lib/cmake/propane/propane-config.cmake)
	$(Q)$(call configured,tools/propane-config-version.cmake.in) > $(call to,$(PREFIX)/lib/cmake/propane/propane-config-version.cmake)
	$(if $(wildcard $(PAGES)/propane.fish),$(install_pages))
	$(if $(UNITS),$(install_unit))

define install_pages
$(Q)install -d $(call to,$(MANDIR)/man1) $(call to,$(BASH_COMPLETIONS)) $(call to,$(ZSH_COMPLETIONS)) $(call to,$(FISH_COMPLETIONS))
	$(Q)install -m 644 $(PAGES)/man/*.1 $(call to,$(MANDIR)/man1/)
	$(Q)install -m 644 $(PAGES)/propane.bash $(call to,$(BASH_COMPLETIONS)/propane)
	$(Q)install -m 644 $(PAGES)/propane.zsh $(call to,$(ZSH_COMPLETIONS)/_propane)
	$(Q)install -m 644 $(PAGES)/propane.fish $(call to,$(FISH_COMPLETIONS)/propane.fish)
endef

UNITS ?= $(if $(filter dylib,$(SHARED)),,$(PREFIX)/lib/systemd/system)# of systemd; empty: none
define install_unit
$(Q)install -d $(call to,$(UNITS))
	$(Q)$(call configured,packaging/systemd/propane-serve.service.in) > $(call to,$(UNITS)/propane-serve.service)
endef
unit: # for tests
	@$(call configured,packaging/systemd/propane-serve.service.in)

uninstall: ## remove the installed files, with the same PREFIX and DESTDIR
	$(Q)rm -f $(call to,$(PREFIX)/bin/propane) $(call to,$(PREFIX)/include/propane.h) $(call to,$(PREFIX)/lib/pkgconfig/propane.pc) \
	    $(foreach f,$(notdir $(PUBLIC_A) $(PUBLIC_SO) $(TRACE)) libpropane.$(SHARED),$(call to,$(PREFIX)/lib/$(f))) \
	    $(call to,$(MANDIR)/man1/propane.1) $(call to,$(MANDIR)/man1/propane-)*.1 $(call to,$(BASH_COMPLETIONS)/propane) \
	    $(call to,$(ZSH_COMPLETIONS)/_propane) $(call to,$(FISH_COMPLETIONS)/propane.fish) \
	    $(if $(UNITS),$(call to,$(UNITS)/propane-serve.service))
	$(Q)rm -rf $(call to,$(PREFIX)/lib/cmake/propane) $(call to,$(PREFIX)/include/propane)

VERSION = $(shell sed -nE 's/\#define PROPANE_VERSION +"(.*)"/\1/p' include/propane/status.h)
configured = sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@PACKAGES@|$(PUBLIC_PACKAGES)|' -e 's|@VERSION@|$(VERSION)|' \
    -e 's|@SHARED@|$(notdir $(PUBLIC_SO))|' -e 's|@SYSTEM_LIBS@|$(strip $(SYSTEM_LIBS))|' $(1)

dist: ## write propane-VERSION.tar.gz from the commit, the same bytes each time, and its section of the changelog
	$(Q)sh tools/dist.sh $(VERSION)

# The Python package. `make check` needs none of it.
python-check: ## install the Python package into build/python and test it
	$(Q)sh python/check.sh
wheel: ## build a manylinux wheel with all parts in build/wheel, and test it in an empty environment
	$(Q)sh python/wheel.sh

site: all ## build the documents as a website in build/site/html (with Sphinx, installed there)
	$(Q)sh tools/site.sh $(BIN)

macos: ## compile and link for arm64 macOS on Linux (fetches macOS's headers)
	$(Q)sh tools/macos.sh

packages: # for scripts
	@echo $(PACKAGES)
version:
	@echo $(VERSION)
public-packages:
	@echo $(PUBLIC_PACKAGES)
parts:
	@echo $(PARTS)

# Any build has the symbols. If there is none, a build without optimisation takes half the time.
layers: paths ## fail on an include of a higher layer, a cycle of files, or a file or function that is too long
	$(Q)sh tools/layers.sh
	$(Q)sh tools/sizes.sh tools/exceptions
	$(Q)$(MAKE) --no-print-directory -j$(JOBS) MODE=$(if $(wildcard $(LIB)),$(MODE),debug) circles CIRCLES=tools/exceptions

circles: $(LIB_OBJ) $(CLI_OBJ) ## list cycles of files that depend on each other (by the symbols of a build)
	$(Q)sh tools/circles.sh $(BUILD) $(CIRCLES)

paths: ## fail if a document or a comment names a missing file, or if a Mac's make or file system would reject something
	$(Q)sh tools/doc_paths.sh
	$(Q)sh tools/portable.sh

sizes: ## list files of more than 600 lines, functions of more than 60, and duplicate file names
	$(Q)sh tools/sizes.sh

clean: ## remove build/
	$(Q)rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2> /dev/null)
.SECONDARY:
