#!/bin/sh
# SPDX-License-Identifier: MIT
# The first hour of five kinds of users, as the README tells it: installs from a clean clone into an empty root, then runs the
# README's own lines there, and what each kind of user does next. Nothing of this clone is on the path.
# Usage: tests/first_hour/run.sh [USER...]   (readme student tuner coreml developer operator; all). Prints a line for each step with its
# seconds, and "N passed, N failed, N skipped". A step that takes more than ten minutes is a failure.
set -u
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
root=$(mktemp -d "${TMPDIR:-/tmp}/propane-hour.XXXXXX") || exit 2
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT TERM HUP
passed=0 failed=0 skipped=0
STEP_LIMIT=600

# step NAME COMMAND: in the root's working folder, by a shell that knows the installed command alone.
step() {
    name=$1 begin=$(date +%s)
    (cd "$root/work" && HOME="$root/home" PATH="$root/usr/bin:/usr/bin:/bin" PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" \
        LD_LIBRARY_PATH="$root/usr/lib" LC_ALL=C.UTF-8 NO_COLOR=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout $STEP_LIMIT sh -c "$2") < /dev/null > "$root/out" 2>&1
    code=$?
    spent=$(($(date +%s) - begin))
    case $code in
    0) passed=$((passed + 1)) && echo "ok      $name ($spent s)" ;;
    77) skipped=$((skipped + 1)) && echo "skipped: $name: $(tail -1 "$root/out")" ;;
    *) failed=$((failed + 1)) && echo "FAILED  $name: exit code $code ($spent s): $2" && tail -15 "$root/out" ;;
    esac
    return $code
}

# The README's lines of a section, without comments.
lines_of() { awk -v section="## $1" '$0 == section { on = 1; next } /^## / { on = 0 } on && /^    [a-z]/' "$repo/README.md" | sed -e 's/^    //' -e 's/  *# .*//'; }

install_it() { # as the section Install says, from a clone of what is committed, without a second root
    git clone -q "$repo" "$root/clone" || return 1
    step "install: make setup && make" "cd ../clone && make setup && make -j2" &&
        step "install: make install" "cd ../clone && make install PREFIX=$root/usr" &&
        step "install: propane version" "propane version"
}

fixtures() { # what the README's lines name and a user brings
    cat "$repo"/docs/[a-m]*.md > "$root/work/book.txt"
    cat "$repo"/docs/[n-z]*.md > "$root/work/other.txt"
    i=0
    while [ $i -lt 40 ]; do
        echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is $i?\"}, {\"role\": \"assistant\", \"content\": \"It is $i.\"}]}"
        i=$((i + 1))
    done > "$root/work/chat.jsonl"
}

# A line of the README as a test can run it: what waits for a person gets one, what does not end is ended.
as_test() {
    case $1 in
    'propane chat'*) echo "echo 'What is 3?' | $1" ;;
    'propane serve'*) echo "$1 > serve.log & pid=\$!; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; curl -sf http://127.0.0.1:8080/health && break; done; kill \$pid; wait \$pid" ;;
    mpirun*) echo "command -v mpirun > /dev/null || { echo 'no mpirun'; exit 77; }; $1" | sed 's/mpirun -n/mpirun --oversubscribe -n/' ;;
    'pip install'*) echo "python3 -m venv ../venv > ../venv.log 2>&1 || { echo 'no venv'; exit 77; }; cd ../clone && ../venv/bin/$1" ;;
    *) echo "$1" ;;
    esac
}

readme() { # every line of the README
    for section in 'Train, fine-tune, generate' 'Core ML packages on a Linux runner' 'Python'; do
        lines_of "$section" > "$root/lines"
        while IFS= read -r line; do step "$line" "$(as_test "$line")"; done < "$root/lines"
    done
}

student() { # compares two runs, looks at one that goes on
    step 'student: two runs beside each other' 'for r in 0.002 0.004; do propane train --data other.txt --layers 1 --width 32 --heads 2 --context 32 --steps 40 --eval-every 20 --lr $r --run lr-$r || exit 1; done
        propane compare lr-0.002 lr-0.004 | tee table && grep -q "^lr  *0.002  *0.004" table && propane compare lr-* --json | python3 -m json.tool > /dev/null' &&
        step 'student: both in one screen' 'propane watch lr-0.002 lr-0.004 --once | grep -q "^b  lr-0.004: done"' &&
        step 'student: a page of both' 'propane report lr-0.002 lr-0.004 && grep -q "id=.data" report.html' &&
        step 'student: a page of a run that goes on' 'propane train --data other.txt --layers 1 --width 32 --heads 2 --context 32 --steps 100000 --run long > log 2>&1 & pid=$!
            for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.3; grep -q "\"step\":9" long/log.jsonl 2> /dev/null && break; done
            propane report long && grep -q "State: running" long/report.html; code=$?; kill -INT $pid; wait $pid; exit $code'
}

tuner() { # has a Hugging Face folder and instruction data
    step 'tuner: all weights' 'propane train --init my-model --data chat.jsonl --epochs 2 --run full' &&
        step 'tuner: loss of the answers' 'propane eval full --data chat.jsonl | grep -i perplexity' &&
        step 'tuner: merges an adapter' 'propane convert my-model merged --merge tuned && ls merged/config.json merged/model.safetensors merged/tokenizer.json' &&
        step 'tuner: what the run was' 'propane show full && ls full/report.html full/log.jsonl'
}

coreml() { # CI of a package: exit codes and files for other programs
    step 'coreml: annotations' 'propane check Model.mlpackage --target m4 --format github' &&
        step 'coreml: SARIF' 'propane check Model.mlpackage --target m4 --format sarif | grep -q 2.1.0' &&
        step 'coreml: latency as JSON' 'propane run Model.mlpackage --seed 1 --iterations 5 --json | grep -q median' &&
        step 'coreml: a page with the graph' 'propane show Model.mlpackage --html model.html && grep -q "<svg\|<canvas" model.html' &&
        step 'coreml: a wrong path is one clear line' '! propane check Nothing.mlpackage 2> err && [ $(wc -l < err) = 1 ]'
}

developer() { # builds examples against what was installed
    cp "$repo"/examples/run_mil.c "$repo"/examples/add.mil "$repo"/examples/library/*.c "$root/work/"
    for example in run_mil gradient train_text; do
        step "developer: $example.c" "cc -std=c11 $example.c \$(pkg-config --cflags --libs propane) -lm -o $example"
    done
    step 'developer: runs one' './run_mil add.mil' && step 'developer: trains' './train_text other.txt trained'
}

operator() { # serves, looks at figures, stops it
    step 'operator: serve, complete, metrics, stop' '
        propane serve my-model --port 18473 > serve.log 2>&1 & pid=$!
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.5; curl -sf http://127.0.0.1:18473/health > /dev/null && break; done
        curl -sf http://127.0.0.1:18473/v1/completions -d "{\"prompt\":\"a\",\"max_tokens\":3}" | grep -q choices || { kill $pid; exit 1; }
        curl -sf http://127.0.0.1:18473/metrics | grep -q ^propane || { kill $pid; exit 1; }
        kill -TERM $pid; wait $pid' &&
        step 'operator: the log has a line for the request' 'grep -q completions serve.log'
}

mkdir -p "$root/work" "$root/home" "$root/usr"
[ $# -gt 0 ] || set -- readme student tuner coreml developer operator
install_it && fixtures && for user; do
    case $user in
    readme | student | tuner | coreml | developer | operator) "$user" ;;
    *) echo "first_hour: no user '$user': readme, student, tuner, coreml, developer, operator" && exit 2 ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed != 0 ]
