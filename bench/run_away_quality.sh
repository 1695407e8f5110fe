#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures the cost in loss of sending few messages: 4 workers against data-parallel training (one process, which is
# the same to 3e-8), after the same number of tokens, by the final validation loss. A small model trains on a text from
# scratch, continues from a model that was trained data-parallel, or begins with a data-parallel warm-up in the same
# run. Prints CSV: begin, seed, what, steps between agreements, wire, outer rate, outer momentum, validation loss,
# percent above data-parallel.
# Usage: bench/run_away_quality.sh [BUILD [TEXT [STEPS [SEEDS]]]]   (TEXT: tinyshakespeare of the tests' data; STEPS
# 2000)
# One row takes 30 to 60 seconds of processor time. Selection of rows: FROM=scratch|trained|warm (one part; warm: 2500
# STEPS were measured), EVERY="20 100 500", WHAT="outer int4 mean", RATE=0.7 MOMENTUM=0.9, BASE=1500 (data-parallel
# steps before "trained"), WARM=1000 (--outer-warmup of "warm"). For example, FROM=trained EVERY=100 WHAT=int4
# bench/run_away_quality.sh build/release "" 2000 3 (seed 3) is one row with its data-parallel one.
# FROM=15m: as "trained", with Stories15M's shape and Llama's 32,000 ids on bench/stories.py's text: 1500 data-parallel
# steps once for all seeds, which then differ in the order of the data. One row of 1000 STEPS takes 6 minutes of
# processor time if matrix products in bf16 are fast.
set -u
cd "$(dirname "$0")/.." || exit 2
build=${1:-build/release} data=${PROPANE_DATA:-$PWD/../shared/data} steps=${3:-2000} seeds=${4:-1}
text=${2:-$data/tinyshakespeare.txt} program=$(cd "$build" && pwd)/propane
[ -f "$text" ] || { echo "skipped: there is no $text"; exit 0; }
command -v mpirun > /dev/null || { echo "skipped: there is no mpirun"; exit 0; }
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-quality.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
[ "$(id -u)" = 0 ] && export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_mpi_yield_when_idle=1

train() { # RANKS FLAGS...: the last validation loss
    ranks=$1 threads=1
    shift
    [ "$ranks" = 1 ] && threads=0 # one for each core, with the same bits
    rm -rf "$work/run"
    mpirun --bind-to none --oversubscribe -n "$ranks" "$program" train --data "$text" --context 32 --threads "$threads" --blas off \
        --eval-every 500 --eval-batches 40 --checkpoint-every 0 --no-report --json --run "$work/run" "$@" 2> "$work/err" |
        sed -nE 's/.*"event":"done".*"val_loss":([0-9.]+).*/\1/p' | grep . || { tail -3 "$work/err" >&2; exit 1; }
}
row() { # WHAT H WIRE RATE MOMENTUM FLAGS...
    head="$begin,$seed,$1,$2,$3,$4,$5"
    h=$2 wire=$3 rate=$4 momentum=$5
    shift 5
    case $begin in warm*) set -- "$@" --outer-warmup "${WARM:-1000}" ;; esac
    loss=$(train 4 "$@" --outer "$h" --wire "$wire" --outer-lr "$rate" --outer-momentum "$momentum") || exit 1
    awk -v head="$head" -v loss="$loss" -v best="$best" 'BEGIN {printf "%s,%.4f,%.1f\n", head, loss, 100 * (loss / best - 1)}'
}
rows() { # FLAGS...
    best=$(train 1 "$@") || exit 1
    echo "$begin,$seed,data-parallel,,,,,$best,0"
    for h in ${EVERY:-20 100 500}; do
        for what in ${WHAT:-outer int4 mean}; do
            case $what in
            outer) row outer "$h" fp32 "${RATE:-0.7}" "${MOMENTUM:-0.9}" "$@" ;;
            int4) row outer "$h" int4 "${RATE:-0.7}" "${MOMENTUM:-0.9}" "$@" ;;
            mean) row mean "$h" fp32 1 0 "$@" ;;
            *) echo "WHAT=$what: there are outer, int4 and mean" >&2; exit 2 ;;
            esac || exit 1
        done
    done
}
if [ "${FROM:-}" = 15m ]; then
    text=${2:-$work/stories.txt} begin="15M trained"
    [ -f "$text" ] || python3 bench/stories.py 12000000 > "$text" || exit 1
    echo '{"model_type": "llama", "hidden_size": 288, "intermediate_size": 768, "num_hidden_layers": 6, "num_attention_heads": 6,
        "num_key_value_heads": 6, "vocab_size": 32000, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": true}' > "$work/15m.json"
    train 1 --context 64 --batch 16 --tokenizer "$data/llama2_tokenizer.bin" --config "$work/15m.json" --steps 500 --schedule constant > /dev/null
    mv "$work/run" "$work/base.500"
    train 1 --context 64 --batch 16 --init "$work/base.500" --steps 1000 --warmup 0 --lr 1e-3 --min-lr 1e-4 --seed 11 > /dev/null
    mv "$work/run" "$work/base.15m"
fi
echo "begin,seed,what,every,wire,outer_lr,outer_momentum,val_loss,percent"
for seed in $seeds; do
    if [ "${FROM:-scratch}" = scratch ]; then
        begin=scratch
        rows --kind chars --layers 3 --width 64 --heads 4 --batch 32 --lr 3e-3 --steps "$steps" --seed "$seed"
    fi
    if [ "${FROM:-trained}" = trained ]; then
        begin=trained
        train 1 --kind chars --layers 2 --width 32 --heads 2 --batch 64 --lr 3e-3 --steps "${BASE:-1500}" --schedule constant --seed "$seed" > /dev/null
        mv "$work/run" "$work/base.$seed"
        rows --init "$work/base.$seed" --batch 64 --steps "$steps" --lr 1e-3 --min-lr 1e-4 --seed "1$seed"
    fi
    if [ "${FROM:-warm}" = warm ]; then
        begin="warm ${WARM:-1000}"
        rows --kind chars --layers 2 --width 64 --heads 4 --batch 64 --lr 3e-3 --steps "$steps" --schedule cosine --seed "$seed"
    fi
    if [ "${FROM:-}" = 15m ]; then
        rows --context 64 --batch 16 --init "$work/base.15m" --steps "$steps" --warmup 0 --lr "${LR:-5e-5}" --min-lr "${LEAST:-5e-6}" --precision bf16 --seed "2$seed"
    fi
done
