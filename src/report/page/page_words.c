/* SPDX-License-Identifier: MIT
 * Owns words out of files on their way into a page: people see what a terminal or a text would obey.
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
