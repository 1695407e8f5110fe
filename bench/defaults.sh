#!/bin/sh
# SPDX-License-Identifier: MIT
# Measures how far the defaults of `propane train` are from the best of nine runs around them: learning rate (a third,
# the default, three times) by schedule (cosine, linear, wsd), with everything else at the command's defaults.
#
#   sh bench/defaults.sh TEXT OUT.csv [CASE...]     CASE: own text tiny full lora (all)
#
# own: TEXT at the command's default sizes (some 30 processor minutes for nine runs). The other models have 2 layers,
# so that the nine runs of a case take about 10 processor minutes. text: width 96 on TEXT. tiny: width 64 on its first
# 300 kB. full, lora: a model of width 96, trained on the first four fifths of TEXT, is tuned on 500 lines of
# instructions. Each is a paragraph of the last fifth, and its prompt is the paragraph's first line (a speaker, in a
# play) with its first words.
# A line of OUT.csv has case, rate, schedule, lowest validation loss (nats per token), whether it is the default, and
# seconds. PROPANE names the command; FLAGS are added to each run. Runs that are already in OUT.csv are not repeated.
set -eu
text=$1 out=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
propane=${PROPANE:-$root/build/release/propane}
flags=${FLAGS:---threads 1}
work=$(mktemp -d "${TMPDIR:-/tmp}/defaults.XXXXXX")
trap 'rm -rf "$work"' EXIT
[ -e "$out" ] || echo "case,lr,schedule,loss,default,seconds" > "$out"

field() { sed -nE "s/.*\"$1\":\"?([-+0-9.e]+).*/\\1/p" "$2" | tail -1; }

small="--layers 2 --width 96 --heads 4 --context 64"
part=$(($(wc -c < "$text") * 4 / 5))

# The base model is kept next to OUT.csv, because two cases need it.
base() {
    [ -e "$out.base/model.safetensors" ] && return
    head -c "$part" "$text" > "$work/first.txt"
    # shellcheck disable=SC2086
    run_once base "$out.base" --data "$work/first.txt" $small > /dev/null
}

lines() {
    tail -c +"$((part + 1))" "$text" | awk -v RS= -F '\n' '
        function put(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[\t\n]/, " ", s); return s }
        NR > 1 && NF > 1 {
            head = $1; $1 = ""; rest = substr($0, 2)
            words = split(rest, word, / +/)
            if (words < 8 || length(rest) > 300) next
            begins = word[1] " " word[2] " " word[3]
            printf "{\"prompt\":\"%s Begin with: %s\\n\",\"completion\":\"%s\\n\"}\n", put(head), put(begins), put(rest)
            if (++n == 500) exit
        }
        END { if (n < 500) { printf "defaults.sh: only %d of 500 lines; give a longer TEXT of paragraphs\n", n > "/dev/stderr"; exit 1 } }'
}

# run_once NAME FOLDER FLAGS...
run_once() {
    name=$1 folder=$2
    shift 2
    # shellcheck disable=SC2086
    "$propane" train --run "$folder" --json --no-report $flags "$@" > "$work/$name.log"
}

# one CASE MARK FLAGS...: a run and its line; rate and schedule come from the run's log
one() {
    case=$1 mark=$2
    shift 2
    begun=$(date +%s)
    run_once grid "$work/run" "$@"
    rate=$(head -1 "$work/run/log.jsonl" | sed -E 's/.*"lr":([^,}]*).*/\1/')
    schedule=$(head -1 "$work/run/log.jsonl" | sed -E 's/.*"schedule":"([a-z]*)".*/\1/')
    echo "$case,$rate,$schedule,$(field best_val_loss "$work/grid.log"),$mark,$(($(date +%s) - begun))" >> "$out"
    rm -rf "$work/run"
}

# grid CASE FLAGS...: the default first, then the eight around it
grid() {
    case=$1
    shift
    grep -q "^$case,.*,yes," "$out" || one "$case" yes "$@"
    centre=$(sed -n "s/^$case,\([^,]*\),.*,yes,.*/\1/p" "$out")
    for schedule in wsd cosine linear; do
        for factor in 1 3 0.333; do
            lr=$(awk -v a="$centre" -v b="$factor" 'BEGIN { printf "%.3g", a * b }')
            grep -q "^$case,$lr,$schedule," "$out" || one "$case" no "$@" --schedule "$schedule" --lr "$lr"
        done
    done
}

[ $# -gt 0 ] || set -- own text tiny full lora
for case; do
    case $case in
    own)
        grid own --data "$text"
        ;;
    text)
        # shellcheck disable=SC2086
        grid text --data "$text" $small
        ;;
    tiny)
        head -c 300000 "$text" > "$work/part.txt"
        grid tiny --data "$work/part.txt" --vocab 512 --layers 2 --width 64 --heads 4 --context 64
        ;;
    full | lora)
        base
        lines > "$work/lines.jsonl" || exit 1
        extra=
        [ "$case" = lora ] && extra="--lora-rank 8"
        # shellcheck disable=SC2086
        grid "$case" --data "$work/lines.jsonl" --init "$out.base" $extra
        ;;
    *) echo "$0: there is no case '$case': own, text, tiny, full, lora" >&2 && exit 2 ;;
    esac
done

# Prints how far each default is from the best of its case.
awk -F, 'NR > 1 { if (!($1 in best) || $4 < best[$1]) { best[$1] = $4; by[$1] = $2 " " $3 } if ($5 == "yes") own[$1] = $4 }
    END { for (c in own) { d = (own[c] / best[c] - 1) * 100; if (d > 3) bad = 1
        printf "%s: default %.4f, best %.4f (%s), %.1f %% apart\n", c, own[c], best[c], by[c], d } exit bad }' "$out"
