/* SPDX-License-Identifier: MIT
 * Owns the output of --help: usage, about, common flags, the other flags under their headings, and examples. A listener
 * gets the usage, the about text and the flags as data, from which man pages and completions are made.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"

enum { HELP_WIDTH = 80, HELP_COLUMN = 29 };

static void (*help_listener)(void *object, const cli_description *d);
static void *help_object;

void cli_on_describe(void (*listener)(void *object, const cli_description *d), void *object) {
    help_listener = listener;
    help_object = object;
}

void cli_standard(const cli_flag *f, char *out, size_t size) {
    *out = 0;
    if (f->required || cli_takes_rest(f) || f->kind == CLI_HEADING) return;
    if (f->kind == CLI_SWITCH) {
        const bool on = f->standard ? strcmp(f->standard, "true") == 0 || strcmp(f->standard, "1") == 0
                                    : f->out && *(const bool *)f->out;
        snprintf(out, size, "%s", on ? "on" : ""); /* most switches are off, so only "on" is shown */
        return;
    }
    if (f->standard) {
        snprintf(out, size, "%s", f->standard);
        return;
    }
    switch (f->kind) {
    case CLI_INT: snprintf(out, size, "%lld", (long long)*(int64_t *)f->out); break;
    case CLI_REAL: snprintf(out, size, "%g", *(double *)f->out); break;
    case CLI_TEXT:
    case CLI_CHOICE:
        if (*(const char **)f->out) snprintf(out, size, "%s", *(const char **)f->out);
        break;
    default: break;
    }
}

static void help_flag(const cli_description *d, const cli_flag *f) {
    char left[100], right[400], standard[100];
    bool named = f->words && !cli_is_positional(f);
    const char *other = cli_is_positional(f) ? NULL : cli_other_name(d->flags, d->count, f, 0);
    if (other && other[1] == '-') other = NULL; /* long aliases are in the man page */
    snprintf(left, sizeof left, "%s%s%s%s%s", f->name, other ? ", " : "", other ? other : "", named ? " " : "",
             named ? f->words : "");
    cli_standard(f, standard, sizeof standard);
    if (f->kind == CLI_SWITCH && *standard)
        snprintf(right, sizeof right, "%s [%s; off with --no-%s]", f->help, standard, f->name + 2);
    else
        snprintf(right, sizeof right, *standard ? "%s [%s]" : "%s", f->help, standard);
    printf("  %-*s", HELP_COLUMN - 2, left);
    if (strlen(left) > HELP_COLUMN - 3) printf("\n%*s", HELP_COLUMN, "");
    cli_wrap(right, HELP_COLUMN, HELP_COLUMN, HELP_WIDTH);
    printf("\n");
}

/* Returns whether the flag is one of the words in `list`. */
static bool help_is_listed(const cli_flag *f, const char *list) {
    const size_t n = f->kind == CLI_HEADING ? 0 : strlen(f->name);
    for (const char *at = n ? list : NULL; at && (at = strstr(at, f->name)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' ')) return true;
    return false;
}

static void help_common(const cli_description *d, const char *common) {
    for (int i = 0; i < d->count; i++)
        if (d->flags[i].kind != CLI_HEADING && cli_is_positional(&d->flags[i])) help_flag(d, &d->flags[i]);
    printf("\nCommon\n");
    for (int i = 0; i < d->count; i++)
        if (help_is_listed(&d->flags[i], common)) help_flag(d, &d->flags[i]);
}

/* Returns whether flags under a heading have not been printed yet. Without such flags the heading is left out. */
static bool help_has_more(const cli_description *d, int heading, const char *common) {
    for (int i = heading + 1; i < d->count && d->flags[i].kind != CLI_HEADING; i++)
        if (!cli_is_positional(&d->flags[i]) && !help_is_listed(&d->flags[i], common)) return true;
    return false;
}

static void help_flags(const cli_description *d, const char *common) {
    if (common) help_common(d, common);
    if (common && d->flags[0].kind != CLI_HEADING && help_has_more(d, -1, common)) printf("\nMore\n");
    for (int i = 0; i < d->count; i++) {
        const cli_flag *f = &d->flags[i];
        if (f->kind == CLI_HEADING && (!common || help_has_more(d, i, common)))
            printf("\n%s\n", f->help);
        else if (f->kind != CLI_HEADING && !(common && (cli_is_positional(f) || help_is_listed(f, common))))
            help_flag(d, f);
    }
}

void cli_describe(const cli_description *d) {
    const cli_command *c = cli_find_command(d->command);
    if (help_listener) {
        help_listener(help_object, d);
        return;
    }
    printf("usage: propane ");
    cli_wrap(d->usage, 15, 15, HELP_WIDTH);
    printf("\n\n");
    cli_wrap(d->about, 0, 0, HELP_WIDTH);
    printf("\n");
    if (d->count && d->flags[0].kind != CLI_HEADING) printf("\n");
    if (d->count) help_flags(d, c ? c->common : NULL);
    if (!c) return;
    printf("\nExamples\n");
    for (const char *at = c->examples; *at;) {
        const size_t n = strcspn(at, "\n");
        const char *note = strstr(at, "  # ");
        const size_t line = note && note < at + n ? (size_t)(note - at) : n;
        printf("  %.*s\n", (int)line, at);
        if (line < n) printf("      %.*s\n", (int)(n - line - 4), note + 4);
        at += n + (at[n] == '\n');
    }
}
