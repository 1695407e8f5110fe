/* SPDX-License-Identifier: MIT
 * Owns the names of flags. A flag has the name in its command's table. An alias from apps/propane/aliases.def is a name
 * too if the table has the alias's flag.
 */
#include <string.h>

#include "apps/propane/cli.h"

static const struct {
    const char *name, *flag;
} names_other[] = {
#define ALIAS(name, flag) {name, flag},
#define ANSWER(command, name, text)
#include "apps/propane/aliases.def"
#undef ALIAS
#undef ANSWER
};
static const struct {
    const char *command, *name, *text;
} names_answers[] = {
#define ALIAS(name, flag)
#define ANSWER(command, name, text) {command, name, text},
#include "apps/propane/aliases.def"
#undef ALIAS
#undef ANSWER
};
enum { NAMES_OTHER = sizeof names_other / sizeof names_other[0] };

bool cli_is_positional(const cli_flag *f) { return f->kind != CLI_HEADING && f->name[0] != '-'; }

bool cli_takes_rest(const cli_flag *f) {
    size_t n = strlen(f->name);
    return n > 3 && strcmp(f->name + n - 3, "...") == 0;
}

/* Treats "--batch_size" as "--batch-size". */
static bool names_equal(const char *name, const char *typed, size_t length) {
    if (strlen(name) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (name[i] != typed[i] && !(name[i] == '-' && typed[i] == '_' && i > 1)) return false;
    return true;
}

static const cli_flag *names_find(const cli_flag *flags, int count, const char *name, size_t length, bool *negated) {
    for (int i = 0; i < count; i++) {
        const cli_flag *f = &flags[i];
        if (f->kind == CLI_HEADING || cli_is_positional(f)) continue;
        *negated = false;
        if (names_equal(f->name, name, length)) return f;
        *negated = true;
        if (f->kind == CLI_SWITCH && length > 5 && memcmp(name, "--no-", 5) == 0 &&
            names_equal(f->name + 2, name + 5, length - 5))
            return f;
    }
    return NULL;
}

const cli_flag *cli_find_flag(const cli_flag *flags, int count, const char *name, size_t length, bool *negated) {
    const cli_flag *f = names_find(flags, count, name, length, negated);
    for (int i = 0; i < NAMES_OTHER && !f; i++)
        if (names_equal(names_other[i].name, name, length))
            f = names_find(flags, count, names_other[i].flag, strlen(names_other[i].flag), negated);
    return f;
}

const char *cli_answer(const char *command, const char *name, size_t length) {
    for (size_t i = 0; i < sizeof names_answers / sizeof names_answers[0]; i++)
        if (strcmp(names_answers[i].command, command) == 0 && names_equal(names_answers[i].name, name, length))
            return names_answers[i].text;
    return NULL;
}

const char *cli_other_name(const cli_flag *flags, int count, const cli_flag *f, int index) {
    bool negated;
    for (int i = 0; i < NAMES_OTHER; i++) {
        const char *name = names_other[i].name;
        if (strcmp(names_other[i].flag, f->name) == 0 &&
            cli_find_flag(flags, count, name, strlen(name), &negated) == f && index-- == 0)
            return name;
    }
    return NULL;
}
