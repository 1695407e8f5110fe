/* SPDX-License-Identifier: MIT
 * Owns the engine's error messages: one row per failure with domain, code and text of the systems up to 26, and of 27.
 * The texts of 27 have the form "METHOD: TEXT (underlying=0x..)", and the number is in the user info, too. If no
 * report from 27 is known, the code is unchanged.
 */
#include <stdio.h>

#include "standin/engine.h"

typedef struct row {
    const char *domain; /* follows com.apple.appleneuralengine */
    long code;
    const char *text; /* NULL for the caller's */
    long new_code;
    const char *new_text; /* NULL for the previous text without the new form */
    long underlying;      /* negative if there is none */
    long stage;           /* of a load; negative if there is none */
} row;

static const row rows[] = {
    [FAIL_TEXT] = {".compiler", 1, NULL, 1, NULL, -1, -1},
    [FAIL_BUNDLE] = {".compiler", 1, NULL, 10, "invalid model", -1, -1},
    [FAIL_LOAD] = {"", 6, "Program load failure (0x20001)", 6, "Program load failed — bad program image", 0x20001, 2},
    [FAIL_LARGE] = {"", 6, "Program load failure (0x20004)", 6, "ANE error (code=6, underlying=0x20004)", 0x20004, 2},
    [FAIL_PLACES] = {"", 6, "Program load failure (0x50004)", 54,
                     "Program load failed — no ANE resources (transient; retry)", 0x5, 1},
    [FAIL_NOT_LOADED] = {"", 7, "the program is not loaded", 7, NULL, -1, -1},
    [FAIL_SURFACES] = {"", 8,
                       "ANEProgramProcessRequestDirect() Failed with status=0x1d : statusType=0x9: Program Inference "
                       "error",
                       42, "Inference failed — IOSurface smaller than the model expects", 0x1d, -1},
    [FAIL_INDEX] = {"", 8,
                    "ANEProgramProcessRequestDirect() Failed with status=0x2 : statusType=0x9: Program Inference error",
                    8, "ANE error (code=8, underlying=0x2)", 0x2, -1},
    [FAIL_POWER] = {"", 34,
                    "ANEProgramProcessRequestDirect() Failed with status=0x12 : statusType=0x9: Request cancelled", 34,
                    NULL, 0x12, -1},
    [FAIL_WAY] = {"", 8, NULL, 8, NULL, -1, -1},
    [FAIL_RUN] = {"", 8, NULL, 8, NULL, -1, -1},
    [FAIL_CHAIN] = {"", 15, "ANEProgramChainingPrepare() Failed", 15, NULL, -1, -1},
};

bool standin_fail(object **error, failure what, const char *selector, const char *detail) {
    const row *r = &rows[what];
    bool is_new = standin_is("texts", "new");
    char domain[80], text[900];
    if (!error) return false;
    snprintf(domain, sizeof domain, "com.apple.appleneuralengine%s", r->domain);
    if (is_new && r->new_text && r->underlying >= 0)
        snprintf(text, sizeof text, "%s: %s (underlying=0x%lX)", selector, r->new_text, (unsigned long)r->underlying);
    else if (is_new && r->new_text)
        snprintf(text, sizeof text, "%s: %s", selector, r->new_text);
    else
        snprintf(text, sizeof text, "%s", r->text ? r->text : detail);
    *error = standin_error(domain, is_new ? r->new_code : r->code, text, is_new ? r->underlying : -1,
                           is_new ? r->stage : -1);
    return false;
}
