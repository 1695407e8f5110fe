/* SPDX-License-Identifier: MIT
 * Owns the table made from limits.def, and decides what a row means for one chip under one system.
 */
#include "ane/chip/limit.h"

#include <assert.h>
#include <string.h>

#include "ane/chip/rule.h"

/* The words in the columns `direct` and `coreml`. LEVEL_ gives a word's severity, WITH_ whether it means harm. */
enum {
    LEVEL_SILENT = CHIP_SILENT,
    LEVEL_NOTE = CHIP_NOTE,
    LEVEL_WARN = CHIP_WARN,
    LEVEL_HARM = CHIP_WARN,
    LEVEL_FALL = CHIP_FALL,
    LEVEL_CRASH = CHIP_CRASH,
    LEVEL_REFUSE = CHIP_REFUSE
};
enum {
    WITH_SILENT = false,
    WITH_NOTE = false,
    WITH_WARN = false,
    WITH_HARM = true,
    WITH_FALL = false,
    WITH_CRASH = true,
    WITH_REFUSE = true
};

static const chip_limit limits[] = {
#define LIMIT(id, site, ops, check, direct, coreml, seen, chips, also, os_min, os_max, value, evidence, sentence,      \
              source, fix)                                                                                             \
    {#id,                                                                                                              \
     CHIP_SITE_##site,                                                                                                 \
     ops,                                                                                                              \
     chip_rule_##check,                                                                                                \
     {LEVEL_##direct, LEVEL_##coreml},                                                                                 \
     {WITH_##direct, WITH_##coreml},                                                                                   \
     seen,                                                                                                             \
     chips,                                                                                                            \
     also,                                                                                                             \
     os_min,                                                                                                           \
     os_max,                                                                                                           \
     value,                                                                                                            \
     CHIP_##evidence,                                                                                                  \
     sentence,                                                                                                         \
     source,                                                                                                           \
     fix},
#include "ane/chip/limits.def"
};

int chip_limit_count(void) { return (int)(sizeof limits / sizeof limits[0]); }
const chip_limit *chip_limit_get(int index) { return &limits[index]; }

const chip_limit *chip_limit_find(const char *id) {
    for (int i = 0; i < chip_limit_count(); i++)
        if (strcmp(limits[i].id, id) == 0) return &limits[i];
    return NULL;
}

double chip_limit_value(const char *id) {
    const chip_limit *l = chip_limit_find(id);
    assert(l && "a row of limits.def");
    return l->value;
}

const char *chip_limit_scope(const chip_limit *l) {
    switch (l->site) {
    case CHIP_SITE_BLOB:
    case CHIP_SITE_RECORD:
    case CHIP_SITE_REFERENCE: return "blob";
    case CHIP_SITE_REQUEST: return "request";
    case CHIP_SITE_PROCESS: return "process";
    case CHIP_SITE_FACT: return "fact";
    default: return "program";
    }
}

const char *chip_severity_name(chip_severity severity) {
    static const char *const names[] = {"note", "warning", "falls back", "crashes elsewhere", "refused"};
    return names[severity];
}

int chip_rank_of(chip_severity severity, bool harm) {
    static const int ranks[] = {[CHIP_NOTE] = 0, [CHIP_WARN] = 1, [CHIP_FALL] = 2, [CHIP_CRASH] = 4, [CHIP_REFUSE] = 5};
    enum { BEFORE_FALLBACKS = 3 };
    return severity == CHIP_WARN && harm ? BEFORE_FALLBACKS : ranks[severity];
}

const char *chip_path_name(chip_path path) { return path == CHIP_PATH_COREML ? "coreml" : "direct"; }

bool chip_limit_on(const chip_limit *l, const chip *c, int os, chip_path path, chip_severity *out) {
    if (l->on[path] == CHIP_SILENT) return false;
    if (!os && l->os_max && (l->on[path] == CHIP_REFUSE || l->os_min)) return false;
    if (os && ((l->os_min && os < l->os_min) || (l->os_max && os > l->os_max))) return false;
    if (chip_listed(l->chips, c))
        *out = l->on[path];
    else if (chip_listed(l->also, c))
        *out = l->on[path] < CHIP_WARN ? l->on[path] : CHIP_WARN;
    else
        return false;
    if (!os && (l->os_min || l->os_max) && *out > CHIP_WARN) *out = CHIP_WARN;
    return true;
}
