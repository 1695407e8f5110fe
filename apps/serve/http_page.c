/* SPDX-License-Identifier: MIT
 * Owns the page's text: apps/serve/page.html, which the build turns into a list of its lines.
 */
#include "apps/serve/http_page.h"

static const char *const page_lines[] = {
#include "apps/serve/page.inc"
};

void http_page_print(text *out) {
    for (size_t i = 0; i < sizeof page_lines / sizeof page_lines[0]; i++) text_append(out, page_lines[i]);
}
