# SPDX-License-Identifier: MIT
# Propane's build. `make help` lists what there is. MODE picks the build folder: build/release, build/asan, ...
MODE   ?= release
BUILD  ?= build/$(MODE)
CC     ?= cc
PREFIX ?= /usr/local
Q      := $(if $(V),,@)

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
            -Wundef -Wvla -Wno-unused-parameter -Wno-missing-field-initializers
OPTIMISE := -O2
SANITIZE :=
ifeq ($(MODE),debug)
OPTIMISE := -O0
endif
ifeq ($(MODE),asan)
OPTIMISE := -O1
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
endif
ifeq ($(MODE),tsan)
OPTIMISE := -O1
SANITIZE := -fsanitize=thread -fno-omit-frame-pointer
endif

# Libraries that a Mac or a Debian gives through pkg-config; tools/setup installs them.
PACKAGES := jansson libpcre2-8 libutf8proc
PKG      ?= pkg-config
PKG_CFLAGS := $(shell $(PKG) --cflags $(PACKAGES) 2>/dev/null)
PKG_LIBS   := $(shell $(PKG) --libs $(PACKAGES) 2>/dev/null || echo -ljansson -lpcre2-8 -lutf8proc)
CHECK_CFLAGS := $(shell $(PKG) --cflags check 2>/dev/null)
CHECK_LIBS   := $(shell $(PKG) --libs check 2>/dev/null || echo -lcheck)

# -ffp-contract=off: the same sums on every compiler; kernels ask for fused multiply-adds by name.
CFLAGS   ?= $(OPTIMISE) -g
override CFLAGS += -std=c11 -D_GNU_SOURCE -ffp-contract=off $(WARNINGS) $(if $(WERROR),-Werror) $(SANITIZE) -MMD -MP \
            -Iinclude -Isrc $(PKG_CFLAGS)
LDLIBS   := $(PKG_LIBS) -lm -lpthread -ldl
LDFLAGS  += $(SANITIZE)

LIB_SRC  := $(sort $(shell find src -name '*.c' -not -path 'src/cli/*'))
CLI_SRC  := $(sort $(wildcard src/cli/*.c))
TEST_SRC := $(sort $(wildcard tests/*/test_*.c))
SUPPORT_SRC := $(sort $(wildcard tests/support/*.c))
BENCH_SRC := $(sort $(wildcard bench/bench_*.c))
EXAMPLE_SRC := $(sort $(wildcard examples/*.c))

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o)
CLI_OBJ  := $(CLI_SRC:%.c=$(BUILD)/%.o)
SUPPORT_OBJ := $(SUPPORT_SRC:%.c=$(BUILD)/%.o)
TEST_BIN := $(TEST_SRC:%.c=$(BUILD)/%)
BENCH_BIN := $(BENCH_SRC:%.c=$(BUILD)/%)
EXAMPLE_BIN := $(EXAMPLE_SRC:%.c=$(BUILD)/%)
LIB      := $(BUILD)/libpropane.a
BIN      := $(BUILD)/propane

.PHONY: all help tests benches examples layers clean
all: $(LIB) $(if $(CLI_SRC),$(BIN)) ## the library and the command

help: ## this list
	@grep -hE '^[a-z][a-z -]*:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(if $(filter tests/%,$<),-Itests $(CHECK_CFLAGS)) -c $< -o $@

$(LIB): $(LIB_OBJ)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BIN): $(CLI_OBJ) $(LIB)
	$(Q)$(CC) $(LDFLAGS) $(CLI_OBJ) $(LIB) $(LDLIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(SUPPORT_OBJ) $(LIB)
	$(Q)$(CC) $(LDFLAGS) $< $(SUPPORT_OBJ) $(LIB) $(CHECK_LIBS) $(LDLIBS) -o $@

$(BUILD)/bench/%: $(BUILD)/bench/%.o $(LIB)
	$(Q)$(CC) $(LDFLAGS) $< $(LIB) $(LDLIBS) -o $@

$(BUILD)/examples/%: $(BUILD)/examples/%.o $(LIB)
	$(Q)$(CC) $(LDFLAGS) $< $(LIB) $(LDLIBS) -o $@

tests: all $(TEST_BIN) $(EXAMPLE_BIN) ## build the tests
benches: all $(BENCH_BIN)
examples: all $(EXAMPLE_BIN)

layers: ## fail on an include that looks upward
	$(Q)sh tools/layers.sh

clean: ## remove build/
	rm -rf build

-include $(LIB_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(SUPPORT_OBJ:.o=.d) $(TEST_BIN:=.d) $(BENCH_BIN:=.d) $(EXAMPLE_BIN:=.d)
.SECONDARY:
