/* SPDX-License-Identifier: MIT
 * Declares the page at "/". It is a single file without external scripts, on which a person talks with the model
 * through the server's endpoints.
 */
#ifndef APPS_SERVE_HTTP_PAGE_H
#define APPS_SERVE_HTTP_PAGE_H

#include "core/base/text.h"

void http_page_print(text *out);

#endif
