#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks what users get: man pages without warnings; completions that bash, zsh and fish read; the release archive,
# made twice with the same bytes; Debian packages that are built, checked by lintian, installed, run and removed; the
# service's unit; the formula's syntax; scripts under shellcheck; and a build without the optional parts. A step whose
# tool is missing counts as skipped, with the reason.
# Usage: tools/packages_check.sh [STEP...]
set -u
cd "$(dirname "$0")/.." || exit 2
export LC_ALL=C.UTF-8
work=$(mktemp -d "${TMPDIR:-/tmp}/propane-packages.XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
passed=0 failed=0 skipped=0
program=$PWD/build/release/propane
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}

step() { # NAME: runs step_NAME in a subshell; 77 means skipped, with the reason on its last line
    ("step_$1") > "$work/log" 2>&1
    case $? in
    0) passed=$((passed + 1)); echo "ok      $1" ;;
    77) skipped=$((skipped + 1)); echo "skipped: packages: $1: $(tail -1 "$work/log")" ;;
    *) failed=$((failed + 1)); echo "FAILED  $1"; tail -30 "$work/log" | sed 's/^/        /' ;;
    esac
}
needs() { for tool; do command -v "$tool" > /dev/null 2>&1 || { echo "there is no $tool here"; exit 77; }; done; }

step_man() {
    needs man
    make -s pages || return 1
    [ "$(find build/release/pages/man -name '*.1' | wc -l)" -gt 20 ] || return 1
    for page in build/release/pages/man/*.1; do
        man --warnings -l -P cat "$page" > "$work/page" 2> "$work/warnings" || return 1
        [ ! -s "$work/warnings" ] || { echo "$page"; cat "$work/warnings"; return 1; }
        grep -q . "$work/page" || return 1
    done
    man -l -P cat build/release/pages/man/propane-train.1 2> /dev/null | grep -q -- '--learning-rate'
}
step_bash() {
    needs bash
    "$program" completion bash > "$work/bash"
    bash --norc -c 'set -e; . "$1"; COMP_WORDS=(propane train --kind ""); COMP_CWORD=3; _propane 2> /dev/null; [ "${COMPREPLY[*]}" = "bpe chars bytes" ]' - "$work/bash"
}
step_zsh() {
    needs zsh
    mkdir "$work/functions"
    "$program" completion zsh > "$work/functions/_propane"
    # A pseudo-terminal with a shell, in which completions are requested as a person would do it.
    cat > "$work/ask.zsh" <<'ASK'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' list-colors ''; LISTMAX=0; echo rea''dy"
zpty -m -r shell answer '*ready*'
zpty -w -n shell $'propane train --sched\t'
zpty -w -n shell $'\C-a\C-k propane tok\t'
zpty -w -n shell $'\C-a\C-k propane train --kind \t\t'
sleep 1
zpty -r -t shell answer '*chars*'; print -r -- "$answer"
zpty -d shell
ASK
    TERM=dumb zsh -f "$work/ask.zsh" "$work/functions" > "$work/answer" 2>&1
    tr -d '\r\010' < "$work/answer"
    grep -q 'schedule' "$work/answer" && grep -q 'tokenize' "$work/answer" && grep -q 'chars' "$work/answer"
}
step_fish() {
    needs fish
    "$program" completion fish > "$work/fish"
    fish --no-config -c 'source $argv[1]; complete -C "propane train --kind "' "$work/fish" | cut -f1 | tr '\n' ' ' | grep -qx 'bpe bytes chars '
}
step_dist() {
    make -s dist > /dev/null || return 1
    version=$(make -s version)
    sha256sum "build/dist/propane-$version.tar.gz" > "$work/sum"
    sleep 1
    make -s dist > /dev/null && sha256sum -c "$work/sum" || return 1
    grep -q "^## $version" "build/dist/propane-$version.changes.md" || return 1
    tar -tzf "build/dist/propane-$version.tar.gz" > "$work/names"
    grep -qx "propane-$version/apps/propane/main.c" "$work/names" && ! grep -qE '/(build|\.git)/' "$work/names"
}
step_formula() {
    needs ruby
    ruby -c build/dist/propane.rb && grep -q "$(sha256sum "build/dist/propane-$(make -s version).tar.gz" | cut -d' ' -f1)" build/dist/propane.rb
}
step_deb() {
    needs dpkg-buildpackage dh dpkg
    JOBS=$jobs sh tools/deb.sh || return 1
    [ "$(id -u)" = 0 ] || { echo "packages are installed as root only"; exit 77; }
    ! dpkg -s propane > /dev/null 2>&1 || { echo "a propane is installed here already"; exit 77; }
    dpkg -i build/deb/*.deb || return 1
    deb_installed
    good=$?
    dpkg -P libpropane-dev libpropane0 propane || return 1
    [ $good = 0 ] && [ ! -e /usr/bin/propane ] && [ ! -e /usr/include/propane.h ]
}
deb_installed() ( # the installed files must work outside the tree
    cd "$work" && /usr/bin/propane version | grep -q '^parts lm .*server .*images .*editing' || exit 1
    awk 'BEGIN {for (i = 0; i < 900; i++) print "line", i * i % 977}' > text
    /usr/bin/propane train --data text --kind bytes --layers 1 --width 16 --heads 2 --context 16 --batch 2 --steps 3 --run run > log &&
        /usr/bin/propane generate run -p line -n 4 > written && [ -s written ] || exit 1
    printf '#include <propane.h>\n#include <stdio.h>\nint main(void) { puts(propane_version()); return 0; }\n' > a.c
    cc a.c -o a $(pkg-config --cflags --libs propane) && ./a && cc a.c -o b -static-libgcc /usr/lib/libpropane.a $(pkg-config --static --libs propane | sed 's/-lpropane//') && ./b &&
        ldd a | grep -q 'libpropane.so.0 => /' && [ -e /usr/share/man/man1/propane-train.1.gz ]
)
step_lintian() {
    needs lintian
    set -- build/deb/*.changes
    [ -f "$1" ] || { echo "no packages were built"; exit 77; }
    lintian --allow-root --fail-on error "$1"
}
step_unit() {
    needs systemd-analyze
    # The unit's program and its man page are not installed here; everything else is checked.
    make -s PREFIX=/usr unit | sed -e "s|/usr/bin/propane|$program|" -e '/^Documentation/d' > "$work/propane-serve.service"
    systemd-analyze verify "$work/propane-serve.service" > "$work/unit" 2>&1
    cat "$work/unit"
    ! grep -q 'propane-serve.service' "$work/unit"
}
step_install() { # installs, and uninstalls everything
    make -s install DESTDIR="$work/root" PREFIX=/usr > /dev/null || return 1
    [ -s "$work/root/usr/share/man/man1/propane-train.1" ] && [ -s "$work/root/usr/share/fish/vendor_completions.d/propane.fish" ] || return 1
    make -s uninstall DESTDIR="$work/root" PREFIX=/usr || return 1
    left=$(find "$work/root" ! -type d)
    [ -z "$left" ] || { echo "$left"; return 1; }
}
step_bare() { # without the optional parts
    make -s -j"$jobs" WERROR=1 WITHOUT='server images editing' BUILD=build/bare all || return 1
    build/bare/propane version | grep -q '^without server .*images .*editing' || return 1
    ! ldd build/bare/propane | grep -E 'microhttpd|libpng|libjpeg|libedit' || return 1
    for cases in run serve tune help basics chat; do sh tests/cli/run.sh build/bare/propane "tests/cli/cases/$cases.t" || return 1; done
}
step_alone() { # without the language models: runs, checks, compiles and trains programs; its tests are run and it is installed
    make -s -j"$jobs" WERROR=1 WITHOUT=lm BUILD=build/alone tests || return 1
    sh tests/run.sh build/alone alone/tests/ cli/cases/run cli/cases/check cli/cases/tune cli/cases/engine cli/cases/older cli/cases/gradient cli/cases/nonfinite cli/cases/sim_coreml cli/cases/foreign || return 1
    make -s WITHOUT=lm BUILD=build/alone install DESTDIR="$work/alone" PREFIX=/usr > /dev/null || return 1
    PKG_CONFIG_PATH=$(dirname "$(find "$work/alone" -name propane.pc)") PKG_CONFIG_SYSROOT_DIR=$work/alone
    export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
    # shellcheck disable=SC2046
    cc examples/run_mil.c -o "$work/run_mil" $(pkg-config --cflags --libs --static propane) || return 1
    ! nm -D --defined-only "$(find "$work/alone" -name 'libpropane.so.0')" | grep -q gguf
}
step_shellcheck() { sh tools/shellcheck.sh; }

make -s -j"$jobs" all || exit 1
[ $# != 0 ] || set -- man bash zsh fish dist formula deb lintian unit install bare alone shellcheck
for name; do step "$name"; done
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ] && [ $passed != 0 ]
