/* SPDX-License-Identifier: MIT
 * Owns the parsing of command lines, with one table per command. Every error message names the flag, the value and the
 * allowed values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/propane/cli.h"
#include "core/base/text.h"
#include "core/base/words.h"

/* Prints a message as one line without control characters, even if it quotes a value that contains some. */
static void flags_print_line(const char *line) {
    char shown[6 * sizeof(propane_error)];
    text_harmless(shown, sizeof shown, line, strlen(line), "");
    fprintf(stderr, "%s\n", shown);
}

static int flags_misuse(const char *command, const char *said) {
    fprintf(stderr, "propane %s: ", command);
    flags_print_line(said);
    fprintf(stderr, "Try 'propane %s --help'.\n", command);
    return CLI_USAGE;
}

int cli_misuse(const char *command, const char *format, ...) {
    char said[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return flags_misuse(command, said);
}

/* Sets the value through the flag's own function. */
static bool flags_hand_over(const cli_flag *f, const char *value, char why[400]) {
    propane_error err = {0};
    if (!*value)
        snprintf(why, 400, "%s: the value is empty", f->name);
    else if (f->set(f->object, f->name + 2, value, &err) == PROPANE_OK)
        return true;
    else
        snprintf(why, 400, "--%.390s", err.text);
    return false;
}

/* Sets the flag from a text. Returns false if the value is wrong; `why` then explains the error. */
static bool flags_set_value(const cli_flag *f, const char *value, char why[400]) {
    const char *end = NULL;
    if (f->set) return flags_hand_over(f, value, why);
    switch (f->kind) {
    case CLI_INT: {
        int64_t n = 0;
        end = text_read_whole(value, &n);
        if (!end || *end || (double)n < f->min || (double)n > f->max) {
            snprintf(why, 400, "%s: '%.100s' is not an integer from %.0f to %.0f", f->name, value, f->min, f->max);
            return false;
        }
        *(int64_t *)f->out = n;
        return true;
    }
    case CLI_REAL: {
        double x = 0;
        end = text_read_real(value, &x);
        if (!end || *end || x < f->min || x > f->max) {
            snprintf(why, 400, "%s: '%.100s' is not a number from %g to %g", f->name, value, f->min, f->max);
            return false;
        }
        *(double *)f->out = x;
        return true;
    }
    case CLI_CHOICE:
        if (!words_have(f->words, '|', value)) {
            snprintf(why, 400, "%s: '%.100s' is not one of %s", f->name, value, f->words);
            return false;
        }
        *(const char **)f->out = value;
        return true;
    case CLI_TEXTS: {
        cli_list *list = f->out;
        if (!*value || list->count >= (int)f->max) {
            snprintf(why, 400, *value ? "%s: may be given at most %.0f times" : "%s: the value is empty", f->name,
                     f->max);
            return false;
        }
        list->items[list->count++] = (char *)(uintptr_t)value;
        return true;
    }
    default:
        if (!*value) {
            snprintf(why, 400, "%s: the value is empty", f->name);
            return false;
        }
        *(const char **)f->out = value;
        return true;
    }
}

static const cli_flag *flags_next_positional(const cli_flag *flags, int count, int index) {
    for (int i = 0; i < count; i++)
        if (cli_is_positional(&flags[i]) && (index-- == 0 || cli_takes_rest(&flags[i]))) return &flags[i];
    return NULL;
}

static int flags_unknown(const char *command, const char *word, size_t length, const cli_flag *flags, int count) {
    char typed[40];
    snprintf(typed, sizeof typed, "%.*s", (int)length, word);
    const char *answer = cli_answer(command, word, length);
    if (answer) return cli_misuse(command, "there is no flag '%.*s': %s", (int)length, word, answer);
    cli_nearest near = {.word = length < sizeof typed ? typed : ""};
    for (int i = 0; i < count; i++) {
        const cli_flag *f = &flags[i];
        const char *other = f->name;
        if (f->kind == CLI_HEADING || cli_is_positional(f)) continue;
        for (int k = 0; other; other = cli_other_name(flags, count, f, k++)) cli_compare(&near, other, f->name);
    }
    if (near.found) return cli_misuse(command, "there is no flag '%.100s'; did you mean '%s'?", word, near.found);
    return cli_misuse(command, "there is no flag '%.100s'", word);
}

static const char *flags_given[200]; /* names of the flags on the command line */
static int flags_given_count;

const char *cli_given(const char *names) {
    for (int i = 0; i < flags_given_count; i++)
        if (words_have(names, '|', flags_given[i])) return flags_given[i];
    return NULL;
}

int cli_refuse(const char *command, const char *names, const char *what) {
    const char *flag = cli_given(names);
    return flag ? cli_misuse(command, "%s does not apply to %s", flag, what) : -1;
}

/* Parses one "--flag", "--flag=value" or "--flag value" and moves *i to its last word. Returns -1 to continue. */
static int flags_parse_flag(int argc, char **argv, int *i, const cli_flag *flags, int count) {
    const char *command = argv[0], *word = argv[*i], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    bool negated = false;
    char why[400];
    const cli_flag *f = cli_find_flag(flags, count, word, length, &negated);
    if (!f) return flags_unknown(command, word, length, flags, count);
    if (f->given) *f->given = true;
    if (!cli_given(f->name) && flags_given_count < (int)(sizeof flags_given / sizeof flags_given[0]))
        flags_given[flags_given_count++] = f->name;
    if (f->kind == CLI_SWITCH) {
        if (equals) return cli_misuse(command, "%s takes no value", f->name);
        if (f->set) return flags_set_value(f, negated ? "false" : "true", why) ? -1 : flags_misuse(command, why);
        *(bool *)f->out = !negated;
        return -1;
    }
    const char *value = equals ? equals + 1 : *i + 1 < argc ? argv[++*i] : NULL;
    if (!value) return cli_misuse(command, "%s needs a value", f->name);
    return flags_set_value(f, value, why) ? -1 : flags_misuse(command, why);
}

/* Parses a positional argument. `command` is true after "--": the words are then another command, and all but its name
 * may be empty. */
static int flags_parse_positional(char **argv, int i, int index, bool command, const cli_flag *flags, int count) {
    const cli_flag *f = flags_next_positional(flags, count, index);
    char why[400];
    if (!f) return cli_misuse(argv[0], "one argument too many: '%.100s'", argv[i]);
    if (!cli_takes_rest(f)) return flags_set_value(f, argv[i], why) ? -1 : flags_misuse(argv[0], why);
    cli_list *list = f->out;
    if (!*argv[i] && !(command && list->count)) return cli_misuse(argv[0], "%s: the value is empty", f->name);
    if (!list->count) list->items = &argv[i];
    if (list->items + list->count != &argv[i])
        return cli_misuse(argv[0], "flags must not be placed between %s", f->name);
    list->count++;
    return -1;
}

static int flags_check_required(const char *command, const cli_flag *flags, int count, int positional) {
    for (int i = 0, index = 0; i < count; i++) {
        const cli_flag *f = &flags[i];
        if (f->kind == CLI_HEADING) continue;
        bool missing = cli_is_positional(f)
                           ? (cli_takes_rest(f) ? ((cli_list *)f->out)->count == 0 : index++ >= positional)
                           : f->kind == CLI_TEXT && f->out && !*(const char **)f->out;
        if (f->required && missing) return cli_misuse(command, "%s is missing", f->name);
    }
    return -1;
}

/* Refuses outputs that would overwrite a file of another kind, before anything is computed. */
static int flags_check_written(const char *command, const cli_flag *flags, int count) {
    propane_error err = {0};
    for (int i = 0; i < count; i++) {
        const char *path = flags[i].writes ? *(const char **)flags[i].out : NULL;
        if (path && cli_check_written(path, flags[i].writes, &err) != PROPANE_OK) return cli_error(command, &err);
    }
    return -1;
}

int cli_parse(int argc, char **argv, const cli_flag *flags, int count, const char *usage, const char *about) {
    int positional = 0;
    bool only_positional = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int code = -1;
        if (!only_positional && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)) {
            cli_describe(&(cli_description){argv[0], flags, count, usage, about});
            return CLI_OK;
        }
        if (!only_positional && strcmp(word, "--") == 0)
            only_positional = true;
        else if (!only_positional && word[0] == '-' && word[1])
            code = flags_parse_flag(argc, argv, &i, flags, count);
        else
            code = flags_parse_positional(argv, i, positional++, only_positional, flags, count);
        if (code >= 0) return code;
    }
    const int code = flags_check_required(argv[0], flags, count, positional);
    return code < 0 ? flags_check_written(argv[0], flags, count) : code;
}

int cli_error(const char *command, const propane_error *err) {
    fprintf(stderr, "propane %s: ", command);
    flags_print_line(err->text);
    return err->status == PROPANE_ERR_CANCELLED ? cli_interrupt_code() : CLI_FAILED;
}

int cli_error_of(const char *command, const char *option, const propane_error *err) {
    propane_error printed = *err;
    if (strncmp(err->text, option, strlen(option)) == 0)
        snprintf(printed.text, sizeof printed.text, "--%.990s", err->text);
    return cli_error(command, &printed);
}
