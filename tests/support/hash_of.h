/* SPDX-License-Identifier: MIT
 * Returns a vocabulary's hash when it cannot fail.
 */
#ifndef TESTS_SUPPORT_HASH_OF_H
#define TESTS_SUPPORT_HASH_OF_H

#include "lm/text/tokenizer.h"
#include "support/test.h"

static inline const char *hash_of(const tokenizer *t) {
    propane_error err = {0};
    const char *hash;
    EXPECT_OK(tokenizer_hash(t, &hash, &err));
    return hash;
}

#endif
