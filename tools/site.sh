#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds the documents as a site in build/site/html: docs/, one page per command (from its --help), and the public
# header. Usage: tools/site.sh [PROPANE]. Needs Python 3.10 and Sphinx, which it installs into build/site/python.
# Warnings are errors: a page that no list names, or a broken link. Exit code 77 means that Sphinx is not available.
set -eu
cd "$(dirname "$0")/.."
propane=${1:-build/release/propane}
[ -x "$propane" ] || { echo "site: $propane is not there: run make first"; exit 1; }
site=build/site
python=$site/python/bin/python
if ! "$python" -c 'import sphinx, myst_parser, furo' 2> /dev/null; then
    mkdir -p "$site"
    python3 -m venv "$site/python" > /dev/null 2>&1 && "$python" -m pip install -q -r docs/requirements.txt > "$site/pip.log" 2>&1 ||
        { echo "Sphinx does not install here (see $site/pip.log)"; exit 77; }
fi

from=$site/source
rm -rf "$from" "$site/html"
mkdir -p "$from/commands"
cp -R docs/. "$from/"
# Links to files that are not pages show their paths.
code='s/\[([^]]*)\]\(\.\.\/(include|examples|bench|tools|src|apps|tests|python)([^)]*)\)/`\2\3`/g; s/\]\(\.\.\/(\.\.\/)?CONTRIBUTING\.md/](contributing.md/g'
for page in "$from"/*.md "$from"/notes/*.md; do
    sed -E "$code" "$page" > "$page.new"
    mv "$page.new" "$page"
done
for page in CONTRIBUTING CHANGELOG SECURITY; do
    sed -E "s/\]\(docs\//](/g; $code" "$page.md" > "$from/$(echo $page | tr '[:upper:]' '[:lower:]').md"
done

names=$("$propane" help --names)
{
    printf '# Commands\n\n`propane COMMAND --help` prints the same.\n\n```{toctree}\n:maxdepth: 1\n\n'
    echo "$names"
    printf '```\n'
} > "$from/commands/index.md"
for name in $names; do
    { printf '# propane %s\n\n```text\n' "$name"; "$propane" "$name" --help; printf '```\n'; } > "$from/commands/$name.md"
done

# The headers, with one heading per section.
awk '
BEGIN { print "# The header\n\n[library.md](library.md) says how to link it and which calls stand for which command.\n\n```c" }
/^\/\* ---- .* -+ \*\/$/ { name = $0; sub(/^\/\* -+ /, "", name); sub(/ -+ \*\/$/, "", name)
    print "```\n\n## " toupper(substr(name, 1, 1)) substr(name, 2) "\n\n```c"; next }
{ print }
END { print "```" }' include/propane.h $(sed -n 's|^#include "\(.*\)"|include/\1|p' include/propane.h) > "$from/header.md"

"$python" -m sphinx -q -W --keep-going -n -b html "$from" "$site/html"
echo "site: $(find "$site/html" -name '*.html' | wc -l) pages in $site/html"
