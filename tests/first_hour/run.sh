#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the first hour of several kinds of users, as the README describes it. It installs from a clean clone into an
# empty root, then does what each kind of user does, with the defaults. Nothing from this clone is on the path. A user is
# a file of tests/first_hour/users with steps. Each user has a folder with a text, examples and a small model, and
# takes less than a minute (readme: every line of the README).
# Usage: tests/first_hour/run.sh [USER...]   (names of those files; all)
# FIRST_HOUR_CLONE=DIR installs a clone that is already built instead. Prints one line per step with its seconds, one
# per user, and "N passed, N failed, N skipped". A step that takes more than ten minutes fails.
set -u
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
root=$(mktemp -d "${TMPDIR:-/tmp}/propane-hour.XXXXXX") || exit 2
trap 'rm -rf "$root"' EXIT
trap 'exit 130' INT TERM HUP
clone=$root/clone
passed=0 failed=0 skipped=0
STEP_LIMIT=600
mkdir -p "$root/home" "$root/usr" "$root/work"
work=$root/work # folder of the current user

# Functions that steps may use.
cat > "$root/words" << 'EOF'
until_there() { # PATTERN FILE: waits for a line in a file that another process writes
    i=0
    until grep -qs -- "$1" "$2"; do i=$((i + 1)); [ $i -lt 400 ] || return 1; sleep 0.05; done
}
EOF

# step NAME COMMAND: runs it in the user's folder, in a shell that finds only the installed command.
step() {
    name=$1 begin=$(date +%s)
    (cd "$work" && HOME="$root/home" PATH="$root/usr/bin:/usr/bin:/bin" PKG_CONFIG_PATH="$root/usr/lib/pkgconfig" CLONE="$clone" PREFIX="$root/usr" \
        LD_LIBRARY_PATH="$root/usr/lib" LC_ALL=C.UTF-8 NO_COLOR=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
        timeout $STEP_LIMIT sh -c ". '$root/words'; $2") < /dev/null > "$root/out" 2>&1
    code=$?
    spent=$(($(date +%s) - begin))
    case $code in
    0) passed=$((passed + 1)) && echo "ok      $name ($spent s)" ;;
    77) skipped=$((skipped + 1)) && echo "skipped: $name: $(tail -1 "$root/out")" ;;
    *) failed=$((failed + 1)) && echo "FAILED  $name: exit code $code ($spent s): $2" && tail -15 "$root/out" ;;
    esac
    return $code
}

# Prints the README's lines of a section, without comments.
lines_of() { awk -v section="## $1" '$0 == section { on = 1; next } /^## / { on = 0 } on && /^    [a-z]/' "$repo/README.md" | sed -e 's/^    //' -e 's/  *# .*//'; }

install_it() { # follows the section Install, in a clone of the committed files, without a second root
    if [ -n "${FIRST_HOUR_CLONE:-}" ]; then
        clone=$(cd "$FIRST_HOUR_CLONE" && pwd) || return 1
    else
        git clone -q "$repo" "$clone" || return 1
        step "install: make setup && make" 'cd "$CLONE" && make setup && make -j2' || return 1
    fi
    step "install: make install" 'cd "$CLONE" && make install PREFIX="$PREFIX"' && step "install: propane version" "propane version"
}

fixtures() { # makes each user's files: two texts, examples, and a small model if needed
    cat "$repo"/docs/[a-m]*.md > "$work/book.txt"
    cat "$repo"/docs/[n-z]*.md > "$work/other.txt"
    i=0
    while [ $i -lt 400 ]; do
        echo "{\"messages\": [{\"role\": \"user\", \"content\": \"What is $i?\"}, {\"role\": \"assistant\", \"content\": \"It is $i.\"}]}"
        i=$((i + 1))
    done > "$work/chat.jsonl"
}
small_model() { step "$user: a small model" 'propane train --data book.txt --layers 2 --width 64 --heads 4 --context 64 --steps 60 --eval-every 0 --run base && propane convert base my-model'; }

[ $# -gt 0 ] || set -- readme scratch student tuner export coreml python developer operator
for user; do
    [ -f "$here/users/$user.sh" ] || { echo "first_hour: no user '$user': $(cd "$here/users" && echo *.sh | sed 's/\.sh//g')" && exit 2; }
done
install_it && for user; do
    began=$(date +%s)
    work=$root/$user
    mkdir -p "$work"
    fixtures
    # shellcheck source=/dev/null
    . "$here/users/$user.sh"
    echo "        $user: $(($(date +%s) - began)) s"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed != 0 ]
