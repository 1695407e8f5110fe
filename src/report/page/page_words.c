/* SPDX-License-Identifier: MIT
 * Owns the conversion of texts from files for a page. Characters that a terminal would interpret are made visible.
 */
#include <string.h>

#include "report/page/page_parts.h"

enum { WORDS_BYTES = 600 };

json_t *page_words(const char *s) {
    char shown[WORDS_BYTES];
    if (!s) return json_string("");
    const size_t length = text_harmless(shown, sizeof shown, s, strlen(s), "");
    return json_bytes(shown, length);
}
