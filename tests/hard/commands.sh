#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs commands and examples with each of their requests for memory failing, once that request only and once with all later ones
# (tests/hard/preload/fail_alloc.c).
# Usage: tests/hard/commands.sh BUILD [NAME...]
#   STACKS=K (2)   tries K requests per chain of calls (all return addresses, of src/ and of libraries): the first, the last, and K - 2
#                  between them by SEED; 0 means every request
#   POINTS=N (12)  tries a sample of N of these by SEED; 0 means all
# A failure must report memory, change no existing file and leave no temporary file; a success must have the usual result.
# Prints one line per command, and one per failing point; exits 1 if a point failed.
set -u
repo=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
shift
points=${POINTS:-12} stacks=${STACKS:-2} seed=${SEED:-$(git rev-list --count HEAD 2> /dev/null || echo 1)}
shim=$build/tests/hard/preload/fail_alloc.so
[ -f "$shim" ] || { echo "skipped: failing allocations of commands need glibc"; exit 0; }
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-hard.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/base"
export XDG_CACHE_HOME="$work/cache" # measured times, which a user's other programs would share
ln -s "$build/propane" "$work/bin/"
for example in train_text finetune_adapter finetune_package gradient classify check_program events stream; do
    [ ! -x "$build/examples/library/$example" ] || ln -s "$build/examples/library/$example" "$work/bin/"
done
PATH=$work/bin:$PATH
cd "$work/base" || exit 2
awk 'BEGIN { for (i = 0; i < 300; i++) print "line", i * i % 97 }' > text
cp "$repo/fuzz/corpus/package/classifier.mlmodel" "$repo/fuzz/corpus/image/rgb.jpg" .
echo 1 2 3 > ids.txt
echo '{"data": "text", "kind": "bytes", "layers": 1, "width": 16, "heads": 2, "context": 16, "batch": 2, "steps": 2, "eval-every": 0, "threads": 1}' > train.json
printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 3]> x) {\n        tensor<fp32, [1, 3]> s = sin(x = x)[name = string("s")];\n        tensor<fp32, [1, 3]> y = relu(x = s)[name = string("y")];\n    } -> (y);\n}\n' > m.mil
propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 2 --eval-every 0 \
    --threads 1 --run r --no-report > ../log || { cat ../log; exit 2; }
propane convert r m.gguf > ../log || exit 2
printf 'line 1\nline 2\n' > said
printf 'program(1.3)\n{\n    func main<ios18>(tensor<fp32, [1, 4]> x) {\n        tensor<fp32, [1, 4]> w = const()[name = string("w"), val = tensor<fp32, [1, 4]>([[0.5, -0.5, 0.25, 0.1]])];\n        tensor<fp32, [1, 1]> y = linear(weight = w, x = x)[name = string("y")];\n    } -> (y);\n}\n' > w.mil
cd "$work" || exit 2
touch stamp

# Prints the state of a command's output in folder $1: one line per file, so that each may be old or new independently.
state() {
    (cd "$1" && for path in $outputs; do
        [ -e "$path" ] || echo "$path none"
        [ ! -e "$path" ] || find "$path" -type f ! -name log.jsonl -exec cksum {} + | sort
    done)
}

# Makes the folder that a command starts in. Copies keep the times of base, so that a command's output is newer than stamp.
changed=yes
fresh() {
    [ -z "$changed" ] || { rm -rf at && cp -rp base at; }
    changed=yes
}

# Removes times, which differ, and what devices prints about those of bf16.
tame() { sed -e 's/[0-9.]* ms//g' -e '/^ *bf16: /,/^[a-z]/{' -e '/^[a-z]/!d' -e '}' "$1"; }

# Prints the requests to try: $stacks per place, then a sample of them.
choose() {
    awk -v k="$stacks" -v s="$seed$requests" '
        { place = "at " $1; of[NR] = place; last[place] = NR; n[place]++ }
        END {
            srand(s)
            for (i = 1; i <= NR; i++) {
                place = of[i]
                earlier = seen[place]++
                if (k == 0 || earlier == 0 || (k > 1 && i == last[place])) print i
                else if (rand() * (n[place] - 1 - earlier) < k - 2 - between[place]) { between[place]++; print i }
            }
        }' stacks > places
    if [ "$points" = 0 ]; then cat places
    else awk -v s="$seed$requests" -v n="$points" '
        { at[NR] = $1 }
        END { srand(s); for (i = 0; i < n; i++) print at[1 + int(NR * rand())] }' places; fi
}

wrong=0 total=0 asked=0 places=0
complain() {
    echo "    $name, request $n$1: $2: $(tail -1 errors | cut -c1-200)"
    bad=$((bad + 1))
}

# Returns whether the messages mention memory. It starts no process, because there are thousands of points.
is_memory() {
    said=
    while read -r line || [ -n "$line" ]; do said="$said $line"; done < errors
    case $said in *[Mm]emory* | *[Aa]lloc*) return 0 ;; *) return 1 ;; esac
}

point() { # $1 '' or ' and all after it'
    fresh
    # shellcheck disable=SC2086
    (cd at && timeout 60 env FAIL_AT="$n" ${1:+FAIL_ON=1} LD_PRELOAD="$shim" $command > ../output 2> ../errors < "$input")
    code=$?
    tried=$((tried + 1))
    changed=$(find at -newer stamp -o -name '*.old-*')
    case $changed in *.tmp-* | *.old-*) complain "$1" 'a temporary file is left' ;; esac
    [ "$outputs" = - ] || {
        if [ -n "$changed" ]; then state at | sort; else cat base.state; fi > after
    }
    case $code in
    "$usual")
        is_memory && ! cmp -s errors ref.errors && return
        if [ "$outputs" = - ]; then cmp -s output ref.output || [ "$(tame output)" = "$(tame ref.output)" ] || complain "$1" 'success with another result'
        else cmp -s after ref.state || complain "$1" 'success with another result'; fi ;;
    1 | 2)
        is_memory || complain "$1" 'another reason than memory'
        if [ "$outputs" != - ] && grep -vxFf base.state after | grep -qvxFf ref.state; then
            complain "$1" 'something half'
        fi ;;
    *) complain "$1" "exit code $code" ;;
    esac
}

while IFS='|' read -r name outputs command; do
    case $name in '#'* | '') continue ;; esac
    name=$(echo $name) outputs=$(echo $outputs) command=$(echo "$command" | sed 's/^ *//')
    input=/dev/null
    case $command in *' < '*) input=${command##* < } command=${command%% < *} ;; esac
    [ $# = 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    command -v "${command%% *}" > /dev/null || { echo "skipped: $name: ${command%% *} is not built here"; continue; }
    tried=0 bad=0
    state base | sort > base.state
    fresh
    # shellcheck disable=SC2086
    (cd at && env FAIL_COUNT=../count FAIL_STACKS=../stacks LD_PRELOAD="$shim" $command > ../ref.output 2> ../ref.errors < "$input")
    usual=$? # a check that finds something ends with 1
    [ $usual -le 1 ] && [ -s count ] || { echo "$name does not work: $(tail -1 ref.errors)"; wrong=$((wrong + 1)); continue; }
    [ "$outputs" = - ] || state at | sort > ref.state
    requests=$(cat count)
    choose > which
    distinct=$(sort -u stacks | wc -l)
    while read -r n; do point ''; point ' and all after it'; done < which
    echo "$name: $requests requests from $distinct places, $(sort -u which | wc -l) of them tried at $tried points, $bad wrong"
    asked=$((asked + requests)) places=$((places + distinct))
    total=$((total + tried)) wrong=$((wrong + bad))
done < "$repo/tests/hard/commands.txt"
[ -z "${TEST_POINTS:-}" ] || echo "commands $asked $places $total" >> "$TEST_POINTS"
echo "$total points of commands, $wrong wrong: $asked requests from $places places (SEED=$seed, STACKS=$stacks)"
[ "$wrong" = 0 ]
