#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on an #include of a higher layer. There is one line per folder of src (or of apps), which lists the folders
# that it may include besides itself. NAME allows that folder's files; NAME/* also those of all its subfolders. The
# longest matching line applies to a file. A file may have a separate line, written without its ending: it may then include
# more than its folder, and only files whose line names it may include it.
set -u
cd "$(dirname "$0")/.." || exit 2
cat > "${TMPDIR:-/tmp}/layers.$$" <<'RULES'
# ---- core: includes nothing above it
core/base:
core/mil: core/base core/mil/*
core/files: core/base core/mil/*
core/grad: core/base core/mil/*
core/pass: core/base core/mil/*
core/device: core/base core/mil/* core/pass
core/null: core/base core/mil/* core/device
core/refusal: core/base core/mil/* core/pass core/device
core/run: core/base core/mil/* core/grad core/pass core/device core/refusal
# ---- cpu: core
cpu: core/base core/mil/* core/device cpu/simd
cpu/cpu_driver: core/base core/mil/* core/device cpu cpu/simd cpu/gemm cpu/plan/plan
cpu/public_process: core/base core/run cpu
cpu/simd: core/base cpu/simd/*
cpu/gemm: core/base cpu cpu/simd
cpu/gemv: core/base cpu cpu/simd
cpu/loop: core/base core/mil/* cpu cpu/simd
cpu/attention: core/base cpu/simd
cpu/conv: core/base core/mil core/mil/ops cpu cpu/simd
cpu/lower: core/base core/mil/* cpu
cpu/plan: core/base core/mil/* cpu cpu/simd cpu/loop
cpu/fuse: core/base core/mil/* cpu cpu/simd cpu/conv cpu/gemv cpu/loop cpu/plan
cpu/ops: core/base core/mil/* cpu cpu/simd cpu/gemm cpu/gemv cpu/loop cpu/attention cpu/conv cpu/plan
cpu/plan/plan: core/base core/mil/* core/pass cpu cpu/lower cpu/plan cpu/fuse cpu/ops
# ---- ane: core and cpu
ane: core/device
ane/chip: core/base core/mil/* core/pass core/run
ane/h13: core/base core/mil/* core/pass
ane/driver: core/base core/mil/* core/pass core/device ane/chip
ane/accel: core/base core/mil/* core/device ane/chip ane/h13 ane/accel/*
ane/sim: core/base core/mil/* core/pass core/device cpu cpu/simd cpu/plan cpu/plan/plan ane/chip ane/h13
# ---- train: core
train/optim: core/base
train/data: core/* train train/import
train/import: core/*
train/dist: core/base train/optim
train: core/* train/*
train/trainer: core/* cpu ane/chip train/*
# ---- lm, the language models: core, ane and train
lm: core/* lm/*
lm/arch: core/base core/mil/* core/files lm/*
lm/files: core/base core/mil/* core/files core/run lm/*
lm/text: core/base core/mil/* core/files lm/*
lm/step: core/* ane/chip train train/optim lm/arch lm/files lm/text
lm/dist: core/base train/optim train/dist train lm/step lm/arch
lm/data: core/base core/mil/* core/files core/run train/data train/import lm/arch lm/files lm/text
lm/run: core/* cpu ane/chip train/* lm/*
lm/infer: core/* lm/*
# ---- report, the texts and pages about the library's findings: everything in the library
report: core/* cpu ane/* train/* lm/* report/*
# the replacement for the language models, in a library without them
without_lm: core/base train/trainer report
trainer_list: train/trainer
# ---- apps. The command and the server are clients of propane.h. They also include core/base, whose JSON, texts,
# whole-file writing and memory would otherwise be in the tree twice. Each other line below is an exception with its
# reason.
apps/propane: core/base report/run apps/propane/*
# the lab examines the driver and the framework below it, not the library, so it includes both
apps/ane-lab: core/* cpu ane/* train train/optim lm/step apps/propane apps/ane-lab/*
apps/ane-lab/macho: core/base
apps/ane-lab/trace: ane/driver
apps/propane/cmd/cmd_classes: core/base apps/ane-lab/* apps/propane
apps/propane/cmd/cmd_devices: core/base apps/ane-lab/* apps/propane/*
apps/propane/cmd/cmd_bench: core/base apps/ane-lab/* apps/propane
apps/propane/cmd/cmd_power: core/base apps/ane-lab/* apps/propane
apps/propane/cmd/cmd_run: core/base apps/ane-lab/* apps/propane/*
apps/propane/cmd/train_text: core/base apps/ane-lab/* apps/propane/*
# registers executed in software: for people working on the compiler
apps/propane/cmd/run_compiled: core/base core/run ane/h13 apps/propane
# the command line with which a run restarts its process: tested with the run, and not useful to others
apps/propane/cmd/cmd_train: core/base train report/run apps/propane/*
# the model behind the estimates, evaluated on published points: for people who fit it
apps/propane/cmd/estimate_points: core/base ane/chip apps/propane/*
apps/propane/cmd/cmd_serve: core/base apps/serve apps/propane/*
# the server runs several texts at once and streams them, for which it uses the library's decoder
apps/serve: core/* lm/*
RULES
trap 'rm -f "${TMPDIR:-/tmp}/layers.$$"' EXIT
find src apps -name '*.c' -o -name '*.h' -o -name '*.def' | sort | xargs grep -noE '^ *# *include "[-a-z_0-9/]+/[a-z_0-9]+' /dev/null | awk '
    FNR == NR { name = $1; sub(/:$/, "", name); rule[name] = $0; sub(/^[^:]*: */, "", rule[name]); next }
    {
        split($0, part, ":"); file = part[1]; used = $0; sub(/^[^"]*"/, "", used)
        if (!(used in rule)) sub(/\/[^\/]*$/, "", used)
        own = file; sub(/^src\//, "", own); sub(/\.[a-z]+$/, "", own)
        for (folder = own; !(folder in rule); ) if (!sub(/\/[^\/]*$/, "", folder)) break
        same = used == own
        sub(/\/[^\/]*$/, "", own)
        if (!(folder in rule)) { print "layers: " file " in " own " has no rule"; bad = 1; next }
        if (file == "src/ane/driver_list.c" || used == own || same) next
        ok = used == folder
        count = split(rule[folder], allowed, " ")
        for (i = 1; i <= count; i++) {
            a = allowed[i]
            if (a == used) ok = 1
            if (sub(/\/\*$/, "", a) && (used == a || index(used, a "/") == 1)) ok = 1
        }
        if (!ok) { print "layers: " file ":" part[2] " looks upward: " folder " may see " rule[folder] ", not " used; bad = 1 }
    }
    END { if (!bad) print "layers: every include looks downward"; exit bad }
' "${TMPDIR:-/tmp}/layers.$$" -
