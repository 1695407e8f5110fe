#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on an #include that looks upward. One line a folder of src: what it may see besides itself. A name allows the
# folder's own files; NAME/* also those of all its subfolders. The longest line speaks for a file. A file may have a line of its
# own, without its ending: then it sees more than its folder, and only those see it whose line names it.
set -u
cd "$(dirname "$0")/.." || exit 2
cat > "${TMPDIR:-/tmp}/layers.$$" <<'RULES'
base:
macho: base
mil: base mil/*
engine: base mil/*
chip: base mil/*
grad: base mil/*
pass: base mil/* chip
device: base mil/* pass
drivers: base mil/* chip pass device
drivers/accel: base mil/* engine chip device drivers/accel/*
drivers/null: base mil/* device
drivers/cpu: base mil/* device drivers/cpu/simd
drivers/cpu/cpu_driver: base mil/* device drivers/cpu drivers/cpu/simd drivers/cpu/plan/plan
drivers/cpu/simd: base drivers/cpu/simd/*
drivers/cpu/gemm: base drivers/cpu drivers/cpu/simd
drivers/cpu/gemv: base drivers/cpu drivers/cpu/simd
drivers/cpu/loop: base mil/* drivers/cpu drivers/cpu/simd
drivers/cpu/attention: base drivers/cpu/simd
drivers/cpu/conv: base mil mil/ops drivers/cpu drivers/cpu/simd
drivers/cpu/lower: base mil/* drivers/cpu
drivers/cpu/plan: base mil/* drivers/cpu drivers/cpu/simd drivers/cpu/loop
drivers/cpu/fuse: base mil/* drivers/cpu drivers/cpu/simd drivers/cpu/conv drivers/cpu/gemv drivers/cpu/loop drivers/cpu/plan
drivers/cpu/ops: base mil/* drivers/cpu drivers/cpu/simd drivers/cpu/gemm drivers/cpu/gemv drivers/cpu/loop drivers/cpu/attention drivers/cpu/conv drivers/cpu/plan
drivers/cpu/plan/plan: base mil/* pass drivers/cpu drivers/cpu/lower drivers/cpu/plan drivers/cpu/fuse drivers/cpu/ops
drivers/sim: base mil/* engine chip pass device drivers/cpu drivers/cpu/simd drivers/cpu/plan drivers/cpu/plan/plan
drivers/ane: base mil/* chip pass device
refusal: base mil/* pass device
run: base mil/* pass device refusal
model: base mil/* model/*
train/optim: base
train/step: base mil/* chip grad pass device refusal model/* train/optim
train/dist: base train/optim train/step model/arch
train/import: base mil/* grad pass device refusal model/arch
train/data: base mil/* model/* train/import
train: base mil/* chip grad pass device model/* train/*
infer: base mil/* pass device model/*
serve: base mil/* device model/* infer api
trace: drivers/ane
api: base mil/* engine chip grad pass device drivers drivers/cpu run model/* train/* infer
# The command is a client of propane.h. It sees src/base as well: its JSON, texts, files written whole and memory would otherwise
# stand in the tree twice. Each line below is an exception, and says why.
cli: base cli/*
# class dumps of Apple's frameworks: for who writes the driver
cli/cmd/cmd_classes: base macho cli cli/device_lab
# questions to a device and what it costs to ask: for who writes the driver
cli/device_lab: base macho mil/* device refusal drivers/ane train/step train/optim drivers/cpu cli/*
# registers executed in software: for who writes the compiler
cli/cmd/run_compiled: base engine run cli
# the command line with which a run starts its process again: tested with the run, and of no use to others
cli/cmd/cmd_train: base train cli/*
# the model behind the estimates, judged on published points: for who fits it
cli/cmd/estimate_points: base chip cli/*
# the server is no part of the library, which needs no libmicrohttpd
cli/cmd/cmd_serve: base serve cli/*
RULES
trap 'rm -f "${TMPDIR:-/tmp}/layers.$$"' EXIT
find src -name '*.c' -o -name '*.h' -o -name '*.def' | sort | xargs grep -noE '^ *# *include "[a-z_0-9/]+/[a-z_0-9]+' /dev/null | awk '
    FNR == NR { name = $1; sub(/:$/, "", name); rule[name] = $0; sub(/^[^:]*: */, "", rule[name]); next }
    {
        split($0, part, ":"); file = part[1]; used = $0; sub(/^[^"]*"/, "", used)
        if (!(used in rule)) sub(/\/[^\/]*$/, "", used)
        own = file; sub(/^src\//, "", own); sub(/\.[a-z]+$/, "", own)
        for (folder = own; !(folder in rule); ) if (!sub(/\/[^\/]*$/, "", folder)) break
        same = used == own
        sub(/\/[^\/]*$/, "", own)
        if (!(folder in rule)) { print "layers: src/" own " has no rule"; bad = 1; next }
        if (file == "src/drivers/list.c" || used == own || same) next
        ok = used == folder
        count = split(rule[folder], allowed, " ")
        for (i = 1; i <= count; i++) {
            a = allowed[i]
            if (a == used) ok = 1
            if (sub(/\/\*$/, "", a) && (used == a || index(used, a "/") == 1)) ok = 1
        }
        if (!ok) { print "layers: " file ":" part[2] " looks upward: src/" folder " may see " rule[folder] ", not " used; bad = 1 }
    }
    END { if (!bad) print "layers: every include looks downward"; exit bad }
' "${TMPDIR:-/tmp}/layers.$$" -
