/* SPDX-License-Identifier: MIT
 * Searches lists that are stored in one string: "a|b|c", "a b c", and name patterns separated by commas. Nothing is
 * allocated.
 */
#ifndef CORE_BASE_WORDS_H
#define CORE_BASE_WORDS_H

#include <stdbool.h>

/* Returns true if `word` is in `list`, whose words are separated by `separator`. */
bool words_have(const char *list, char separator, const char *word);
/* Returns true if a name matches a pattern in which * matches any characters. */
bool words_match(const char *pattern, const char *name);
/* Returns true if one of the comma-separated patterns of `list` matches. A pattern without *, such as "layers.0.",
 * matches anywhere in the name. */
bool words_match_any(const char *list, const char *name);

#endif
