/* SPDX-License-Identifier: MIT
 * Owns the page's style, body and script as bytes. The build generates them from the files in src/report/page.
 */
#include "report/page/page_parts.h"

const char page_style[] = {
#include "report/page/graph.css.inc"
    0};

const char page_body[] = {
#include "report/page/graph.html.inc"
    0};

/* The order matters, because a file uses classes that the files before it define. */
/* clang-format off */
const char page_script[] = {
#include "report/page/layout.js.inc"
#include "report/page/view.js.inc"
#include "report/page/main.js.inc"
    0};
/* clang-format on */
