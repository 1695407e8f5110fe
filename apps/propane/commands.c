/* SPDX-License-Identifier: MIT
 * Owns the table of commands (apps/propane/commands.def), the list that 'propane help' prints, and "did you mean".
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/cli.h"

const cli_command cli_commands[] = {
#define COMMAND(task, name, ...) {task, #name, cmd_##name, __VA_ARGS__},
#include "apps/propane/commands.def"
#undef COMMAND
};
const int cli_command_count = (int)(sizeof cli_commands / sizeof cli_commands[0]);

const cli_command *cli_find_command(const char *name) {
    for (int i = 0; i < cli_command_count; i++)
        if (strcmp(name, cli_commands[i].name) == 0) return &cli_commands[i];
    return NULL;
}

void cli_print_commands(FILE *out) {
    const char *task = "";
    fprintf(out, "Propane trains, runs and checks neural networks as MIL programs, the form that an\n"
                 "Apple Neural Engine compiles. It runs them on any machine.\n\nusage: propane COMMAND [flags]\n");
    for (int i = 0; i < cli_command_count; i++) {
        const cli_command *c = &cli_commands[i];
        if (strcmp(task, c->task) != 0) fprintf(out, "\n%s\n", c->task);
        task = c->task;
        fprintf(out, "  %-11s %s\n", c->name, c->summary);
    }
    fprintf(out, "\nFirst steps:\n"
                 "    propane train --data book.txt --run my-run        train a small model on a text\n"
                 "    propane generate my-run --prompt 'Once upon'      generate text\n"
                 "    propane run Model.mlpackage --seed 1              run a Core ML package\n"
                 "    propane check Model.mlpackage --target m1,m4      check it against known rules\n"
                 "\n'propane COMMAND --help' explains a command, with examples.\n");
}

/* Returns the number of single edits between two short words. */
static size_t commands_distance(const char *a, const char *b) {
    size_t n = strlen(b), row[32];
    if (n > 31 || strlen(a) > 31) return 99;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; *a; a++, i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t old = row[j], best = diagonal + (*a != b[j - 1]);
            if (old + 1 < best) best = old + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
            diagonal = old;
        }
    }
    return row[n];
}

/* A candidate is similar if it differs by at most two edits, and if twice the number of edits is less than the word's
 * number of letters. A word of three letters allows one edit. */
void cli_compare(cli_nearest *n, const char *candidate, const char *meant) {
    const size_t edits = commands_distance(n->word, candidate), letters = strlen(n->word + strspn(n->word, "-"));
    if (edits > 2 || 2 * edits >= letters || (n->found && edits >= n->edits)) return;
    n->found = meant;
    n->edits = edits;
}
