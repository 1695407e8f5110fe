# docs/library.md against the command and the header: each command has a row of calls. Each flag has a row with its equivalent in
# the library. Every name in these rows is in the header.
@ D="$REPO/docs/library.md"; H="$REPO/include/propane.h"; propane --help | sed -n 's/^  \([a-z][a-z]*\)  *.*/\1/p' | sort > commands; awk '/^## Commands/ {on = 1; next} /^## / {on = 0} on && /^\| `/ {print $2}' "$D" | tr -d '`' | sort > told; awk '/^## Flags/ {on = 1; next} /^## / {on = 0} on && /^\| `/' "$D" > rows; wc -l < commands | awk '$1 < 20 {exit 1}'
$ diff commands told
= 0
# The existing flags, and those of the rows. Training options by name are in options.def, once.
@ for c in $(cat commands); do propane "$c" --help | sed -nE 's/^  (--?[a-z][-a-z0-9]*).*/\1/p' | sed "s/^/$c /"; done | sort -u > flags; awk -F'|' '{gsub(/[` ]+/, " ", $2); gsub(/`/, "", $3); n = split($3, f, " "); for (i = 1; i <= n; i++) if (f[i] ~ /^-/) print $2, f[i]}' rows | sed 's/^ *//; s/  */ /g' | sort > set; sed -nE 's/^OPTION\([A-Z]+, [a-z0-9_]+, "([a-z0-9-]+)".*/train --\1/p' "$REPO/src/train/options.def" | sort -u > options; wc -l < flags | awk '$1 < 150 {exit 1}'
$ ! sort -u set options | comm -23 flags - | grep .
= 0
? part:lm
$ ! { comm -13 flags set; uniq -d set; comm -12 set options; } | grep .
= 0
# Names and members.
@ tr '\n' ' ' < "$REPO/docs/library.md" | grep -oE '`propane_[a-z0-9_]+(\.[a-z0-9_]+)?' | tr -d '`' | sort -u > names; wc -l < names | awk '$1 < 90 {exit 1}'
$ ! for n in $(grep -v '\.' names) $(sed -n 's/\..*//p' names | sort -u); do grep -qwE "$n" "$REPO"/include/propane/*.h || echo "the header has no $n"; done | grep .
= 0
@ awk '/^typedef struct propane_[a-z_]+ \{/ {name = $3; body = ""} name {body = body " " $0} /^} propane_/ {gsub(/\/\*[^*]*\*\//, "", body); gsub(/[^a-z0-9_]+/, " ", body); print name, body; name = ""}' "$REPO"/include/propane/*.h > structures
$ ! for n in $(grep '\.' names); do awk -v s="${n%.*}" -v m="${n#*.}" '$1 == s {for (i = 2; i <= NF; i++) if ($i == m) found = 1} END {exit !found}' structures || echo "the header has no $n"; done | grep .
= 0
