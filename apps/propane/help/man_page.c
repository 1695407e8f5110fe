/* SPDX-License-Identifier: MIT
 * Prints man pages, in the man macros of groff and mandoc: one per command and one for all.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/help/help.h"

void help_ask(const cli_command *c, void (*print)(void *object, const cli_description *d), void *object) {
    char flag[] = "--help", other[16];
    char *ask[] = {(char *)(uintptr_t)c->name, flag, NULL, NULL};
    cli_on_describe(print, object);
    (void)c->run(2, ask);
    if (c->also) {
        snprintf(other, sizeof other, "%s", c->also);
        ask[1] = other;
        ask[2] = flag;
        (void)c->run(3, ask);
    }
    cli_on_describe(NULL, NULL);
}

/* Prints a text with groff's special characters escaped. A newline begins a paragraph. */
static void man_text(const char *words, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const char c = words[i];
        if ((c == '.' || c == '\'') && (i == 0 || words[i - 1] == '\n')) printf("\\&");
        if (c == '\\')
            printf("\\e");
        else if (c == '-')
            printf("\\-");
        else if (c == '\'')
            printf("\\(aq");
        else if (c == '\n')
            printf("\n.PP\n");
        else
            putchar(c);
    }
}

static void man_words(const char *words) { man_text(words, strlen(words)); }

static void man_flag_name(const char *name, const char *before) {
    printf("%s\\fB", before);
    man_words(name);
    printf("\\fR");
}

static void man_flag(const cli_description *d, const cli_flag *f) {
    char standard[100];
    const bool positional = cli_is_positional(f);
    const char *other;
    printf(".TP\n");
    if (positional) {
        printf("\\fI");
        man_words(f->name);
        printf("\\fR");
    } else {
        man_flag_name(f->name, "");
    }
    for (int i = 0; !positional && (other = cli_other_name(d->flags, d->count, f, i)); i++) man_flag_name(other, ", ");
    if (!positional && f->words) {
        printf(" \\fI");
        man_words(f->words);
        printf("\\fR");
    }
    printf("\n");
    man_words(f->help);
    cli_standard(f, standard, sizeof standard);
    if (*standard) {
        printf(" [");
        man_words(standard);
        printf("]");
    }
    if (f->kind == CLI_SWITCH) {
        man_flag_name("--no-", "; ");
        man_flag_name(f->name + 2, "");
        printf(": not");
    }
    printf("\n");
}

static void man_print(void *object, const cli_description *d) {
    bool *again = object;
    if (*again)
        printf(".SH \"OTHER FORM\"\n\\fBpropane\\fR ");
    else
        printf(".SH SYNOPSIS\n\\fBpropane\\fR ");
    man_words(d->usage);
    printf(*again ? "\n.PP\n" : "\n.SH DESCRIPTION\n");
    man_words(d->about);
    printf("\n");
    if (d->count && !*again) printf(".SH OPTIONS\n");
    for (int i = 0; i < d->count; i++) {
        if (d->flags[i].kind != CLI_HEADING) {
            man_flag(d, &d->flags[i]);
            continue;
        }
        printf(".SS \"");
        man_words(d->flags[i].help);
        printf("\"\n");
    }
    *again = true;
}

static void man_examples(const char *examples) {
    printf(".SH EXAMPLES\n");
    for (const char *at = examples; *at;) {
        const size_t n = strcspn(at, "\n");
        const char *note = strstr(at, "  # ");
        const size_t line = note && note < at + n ? (size_t)(note - at) : n;
        printf(".TP\n\\fB");
        man_text(at, line);
        printf("\\fR\n");
        if (line < n) man_text(note + 4, n - line - 4);
        printf("\n");
        at += n + (at[n] == '\n');
    }
}

static void man_ends(void) {
    printf(".SH \"EXIT STATUS\"\n0: success; 1: failure; 2: wrong usage; 4: an output contains NaN or infinity; 130: "
           "stopped by Ctrl\\-C. Exit codes described above take precedence.\n");
}

static void man_list(void) {
    const char *task = "";
    printf(".SH COMMANDS\n");
    for (int i = 0; i < cli_command_count; i++) {
        const cli_command *c = &cli_commands[i];
        if (strcmp(task, c->task) != 0) printf(".SS \"%s\"\n", c->task);
        task = c->task;
        printf(".TP\n\\fBpropane\\-%s\\fR(1)\n", c->name);
        man_words(c->summary);
        printf("\n");
    }
}

static void man_overview(void) {
    printf(
        ".TH PROPANE 1 \"\" \"propane %s\" Propane\n.SH NAME\npropane \\- train, run and check neural networks as MIL "
        "programs\n.SH SYNOPSIS\n\\fBpropane\\fR \\fICOMMAND\\fR [\\fIflags\\fR]\n.SH DESCRIPTION\n",
        propane_version());
    man_words("All computation on a device is done by programs in MIL, Core ML's intermediate language. Apple's "
              "compiler for the Neural Engine accepts such programs; the cpu device runs the same ones on any machine. "
              "Propane has not yet run on Apple silicon.");
    printf("\n");
    man_list();
    printf(
        ".SH ENVIRONMENT\n.TP\n\\fBPROPANE_THREADS\\fR\nnumber of threads if no flag sets it; 0: one per core\n"
        ".TP\n\\fBNO_COLOR\\fR\nany value disables colours\n"
        ".TP\n\\fBPROPANE_PYTHON\\fR\nPython with jinja2, for chat templates of unknown formats; default: python3\n");
    man_ends();
    man_examples("propane train --data book.txt --run my-run  # train a small model on a text\n"
                 "propane generate my-run --prompt 'Once upon'  # generates text\n"
                 "propane check Model.mlpackage --target m1,m4  # checks it against known rules\n");
}

void help_print_man(const cli_command *c) {
    bool again = false;
    if (!c) {
        man_overview();
        return;
    }
    printf(".TH PROPANE-");
    for (const char *at = c->name; *at; at++) putchar(*at - 'a' + 'A');
    printf(" 1 \"\" \"propane %s\" Propane\n.SH NAME\npropane\\-%s \\- ", propane_version(), c->name);
    man_words(c->summary);
    printf("\n");
    help_ask(c, man_print, &again);
    man_examples(c->examples);
    man_ends();
    printf(".SH \"SEE ALSO\"\n\\fBpropane\\fR(1)\n");
}
