/* SPDX-License-Identifier: MIT
 * Owns the page's style, body and script as bytes; the build makes them of the files in src/api/page.
 */
#include "api/page_parts.h"

const char page_style[] = {
#include "api/graph.css.inc"
    0};

const char page_body[] = {
#include "api/graph.html.inc"
    0};

/* The classes of one file are there before the next one uses them. */
/* clang-format off */
const char page_script[] = {
#include "api/layout.js.inc"
#include "api/view.js.inc"
#include "api/main.js.inc"
    0};
/* clang-format on */
