/* SPDX-License-Identifier: MIT
 * The page at "/": a single file without external scripts that talks to the model through the server's endpoints.
 */
#ifndef APPS_SERVE_HTTP_PAGE_H
#define APPS_SERVE_HTTP_PAGE_H

#include "core/base/text.h"

void http_page_print(text *out);

#endif
