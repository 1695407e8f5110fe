#!/bin/sh
# Measures how much a training option changes the result: the same small model on the same text, with each variant and three
# seeds.
#
#     bench/variants.sh TEXT moments [FLAGS]        --moments fp32, bf16, int8
#     bench/variants.sh TEXT clip [FLAGS]           --clip-norm exact, lagged, on the simulated engine's queue and on the cpu
#     bench/variants.sh TEXT scale [FLAGS]          with and without a loss scale on sim:m4, and fp32 on the cpu
#
# FLAGS of propane train replace those of the small model: --tokenizer, --config, --batch, --context.
# Writes one row per run (variant, seed, validation loss in nats per character, mean loss of the last 100 steps) and the means.
# Defaults: THREADS 1, STEPS 2000, SEEDS 1 2 3. PROPANE: the command.
set -eu
text=$1 what=$2
shift 2
[ $# -gt 0 ] || set -- --kind chars --layers 4 --width 96 --heads 4 --batch 8 --context 64 --lr 0.002
propane=${PROPANE:-build/release/propane} steps=${STEPS:-2000} seeds=${SEEDS:-1 2 3}
case $what in
moments) variants='--moments=fp32 --moments=bf16 --moments=int8' ;;
clip) variants='--clip-norm=exact --clip-norm=lagged' ;;
scale) variants='--device=cpu --device=sim:m4 --precision=fp32' ;;
*) echo "variants.sh: '$what' is none of moments, clip and scale" >&2; exit 2 ;;
esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for seed in $seeds; do
    for variant in $variants; do
        case $variant in --precision=*) device='--device sim:m4' ;; *) device= ;; esac
        # shellcheck disable=SC2086
        "$propane" train --data "$text" "$@" $device \
            --steps "$steps" --seed "$seed" --threads "${THREADS:-1}" --eval-every "$steps" --eval-batches 50 --checkpoint-every 0 \
            --no-report "${variant%%=*}" "${variant#*=}" --run "$folder/run" --json > "$folder/log"
        val=$(grep -o '"val_loss":[0-9.]*' "$folder/log" | tail -1 | sed 's/.*://')
        last=$(grep -o '"loss":[0-9.]*' "$folder/log" | tail -100 | awk -F: '{s += $2} END {printf "%.5f", s / NR}')
        echo "${variant#*=},$seed,$val,$last"
        rm -rf "$folder/run"
    done
done | tee "$folder/rows"
awk -F, '{n[$1]++; v[$1] += $3; l[$1] += $4} END {for (k in n) printf "mean,%s,%.5f,%.5f\n", k, v[k] / n[k], l[k] / n[k]}' "$folder/rows"
