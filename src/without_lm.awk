# SPDX-License-Identifier: MIT
# Of each function that a header declares, one that refuses: an error for a status, else NULL, false, 0 or nothing.
# What would be made is NULL. Usage: awk -f src/without_lm.awk include/propane/lm.h
function put(declaration,    body, name) {
    sub(/^PROPANE_CHECK /, "", declaration)
    gsub(/[ \t]+/, " ", declaration)
    body = ""
    if (match(declaration, /\*\*[a-z_]+/)) {
        name = substr(declaration, RSTART + 2, RLENGTH - 2)
        body = " if (" name ") *" name " = NULL;"
    }
    if (declaration ~ /^propane_status /) body = body " return without_lm(" (declaration ~ /propane_error \*why/ ? "why" : "err") ");"
    else if (declaration ~ /^const char .*\(void\)/) body = body " return \"\";"
    else if (declaration ~ /^(const )?[a-z_]+ \*/) body = body " return NULL;"
    else if (declaration ~ /^(bool|int|int32_t|int64_t) /) body = body " return 0;"
    else if (declaration !~ /^void /) { print "#error " declaration; return }
    print declaration " {" body " }"
}
{ gsub(/\/\*.*\*\//, "") }
/^\/\*/ { comment = 1 }
comment { if (/\*\//) comment = 0; next }
/^(typedef|struct|enum)/ { inside = /\{/ && !/\}/ ? 1 : 0; if (/\(/ && /;/) next; if (!/;/ && !inside) inside = 2; next }
inside { if (/^\}/ || (inside == 2 && /;/)) inside = 0; next }
/^#/ || /^PROPANE_(BEGIN|END)/ { next }
/^[A-Za-z]/ && /\(/ { declaration = $0; if (!/;/) { open = 1; next } }
open { declaration = declaration " " $0; if (!/;/) next; open = 0 }
declaration != "" { sub(/;.*/, "", declaration); put(declaration); declaration = "" }
