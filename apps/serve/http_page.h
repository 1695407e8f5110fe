/* SPDX-License-Identifier: MIT
 * The page at "/": one file, with no script from elsewhere, that talks with the model through the server's own
 * endpoints.
 */
#ifndef APPS_SERVE_HTTP_PAGE_H
#define APPS_SERVE_HTTP_PAGE_H

#include "core/base/text.h"

void http_page_print(text *out);

#endif
