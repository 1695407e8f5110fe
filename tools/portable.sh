#!/bin/sh
# SPDX-License-Identifier: MIT
# Fails on things that a Mac's make or disk does not accept: in the Makefile, features of GNU make that are newer than
# macOS's 3.81; and two file names that differ only in capitals, which its disk cannot hold. tests/bsdtools checks the
# other tools.
set -u
cd "$(dirname "$0")/.." || exit 2
bad=0
tell() { # WHY PATTERN: no line of the Makefile may match, except comments
    found=$(grep -nE "$2" Makefile | grep -vE '^[0-9]+:#')
    [ -z "$found" ] && return
    printf '%s\n' "$found" | sed "s|^\([0-9]*\):.*|portable: Makefile:\1: $1|"
    bad=1
}
tell '$(file ...) is of make 4.0' '\$[({]file[ <>]'
tell '$(guile ...), $(let ...), $(intcmp ...) are of make 4' '\$[({](guile|let|intcmp) '
tell 'undefine is of make 3.82' '^[[:space:]]*(override )?undefine '
tell 'VARIABLE != COMMAND is of make 4.0: write $(shell ...)' '^[A-Za-z_][A-Za-z0-9_]*[[:space:]]*!='
tell '::= and :::= are of make 4: write :=' '::+='
tell 'grouped targets are of make 4.3' '^[^#	]*[^&]&:'
tell '.ONESHELL is of make 3.82' '\.ONESHELL'
tell '.RECIPEPREFIX is of make 3.82' '\.RECIPEPREFIX'
tell '.SHELLFLAGS is of make 3.82' '\.SHELLFLAGS'
tell '.SHELLSTATUS is of make 4.2' '\.SHELLSTATUS'
tell '.EXTRA_PREREQS, .NOTINTERMEDIATE, .WAIT are of make 4.3 and 4.4' '\.(EXTRA_PREREQS|NOTINTERMEDIATE|WAIT)'
tell '--output-sync, -O are of make 4.0' '(MAKE\)|MAKEFLAGS).*( -O|--output-sync|--shuffle|--trace)'
tell 'load is of make 4.0' '^-?load '
tell 'private is of make 3.82' '(^|: *|override )private '
tell 'define with = is of make 3.82: write "define NAME"' '^(override )?define [^=]*='
tell 'MAKE_TERMOUT, MAKE_HOST are of make 4' '\$[({]MAKE_(TERMOUT|TERMERR|HOST|VERSION)'
tell '$(wildcard ...) is in order with some versions only: write $(sort $(wildcard ...))' '^[A-Z_]+ *:?= *\$\(wildcard '
tell '$(shell ...) of one plain command runs without a shell, which has no "command" then: write 2> /dev/null behind it' '\$\(shell (command|type|ulimit) [^|<>;&()]*\)'

twice=$({ git ls-files 2> /dev/null || find . -type f ! -path './build/*' ! -path './.git/*'; } | LC_ALL=C tr '[:upper:]' '[:lower:]' | LC_ALL=C sort | uniq -d)
if [ -n "$twice" ]; then
    printf '%s\n' "$twice" | sed 's/^/portable: two files differ by capitals alone, which a Mac takes for one: /'
    bad=1
fi
[ $bad = 0 ] && echo "portable: the Makefile is for make 3.81, no two names differ by capitals alone"
exit $bad
