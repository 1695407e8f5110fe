/* SPDX-License-Identifier: MIT
 * The command's own tools: flags, messages, exit codes, signals. Only apps/propane prints or exits.
 *
 * Exit codes: 0 done; 1 it failed (message on standard error); 2 wrong use (message names the flag and the command's
 * help); 3 check --strict: an operation leaves the engine; 4 outputs of run or diff have NaN or infinity; 130 stopped
 * by Ctrl-C after a clean end, 143 by SIGTERM, 129 by SIGHUP.
 */
#ifndef APPS_PROPANE_CLI_H
#define APPS_PROPANE_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/status.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NOT_FINITE = 4, CLI_INTERRUPTED = 130 };

typedef enum cli_kind {
    CLI_SWITCH, /* bool: --name, or --no-name */
    CLI_INT,    /* int64_t within [min, max] */
    CLI_REAL,   /* double within [min, max] */
    CLI_TEXT,   /* const char * */
    CLI_TEXTS,  /* cli_list: may be given up to `max` times; `items` has room for them */
    CLI_CHOICE, /* const char *, one of the words in `words`, separated by '|' */
    CLI_HEADING /* a line in the help */
} cli_kind;

typedef struct cli_flag {
    const char *name; /* "--steps", or "FILE" for a positional argument, "FILE..." for all that are left */
    cli_kind kind;
    void *out;         /* holds the default; NULL for headings */
    double min, max;   /* CLI_INT, CLI_REAL */
    const char *words; /* CLI_CHOICE: "a|b|c"; otherwise what stands for the value in the help ("N", "FILE") */
    const char *help;
    const char *standard; /* shown as the default instead of what `out` holds, which may then be NULL; NULL: that */
    bool required;
    bool *given; /* may be NULL: set where the flag stood on the command line */
    /* May be NULL: takes the value instead of `out`, by the name without "--"; a switch's is "true" or "false". Its
     * error begins with the name. */
    propane_status (*set)(void *object, const char *name, const char *value, propane_error *err);
    void *object;
} cli_flag;

typedef struct cli_list { /* what "NAME..." fills */
    char **items;
    int count;
} cli_list;

typedef struct cli_command { /* a row of apps/propane/commands.def */
    const char *task, *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    bool draws;
    const char *summary, *also, *common, *examples;
} cli_command;

/* What a command says of itself when it is asked for help. */
typedef struct cli_description {
    const char *command;
    const cli_flag *flags;
    int count;
    const char *usage, *about; /* as cli_parse has them */
} cli_description;

/* From now on what goes to standard output, a terminal, cannot drive it. */
void cli_filter_output(void);

extern const cli_command cli_commands[];
extern const int cli_command_count;
const cli_command *cli_find_command(const char *name); /* NULL: there is none */
/* The commands by task. */
void cli_print_commands(FILE *out);

/* The next word that is nearest, for "did you mean"; NULL: none is near. */
typedef struct cli_nearest {
    const char *word, *found;
    size_t edits;
} cli_nearest;
void cli_compare(cli_nearest *n, const char *candidate, const char *meant);

/* The flag that `name` of `length` stands for in a table: its own name or one of apps/propane/aliases.def, "_" being
 * "-"; with *negated a switch's --no-NAME. NULL: none. */
const cli_flag *cli_find_flag(const cli_flag *flags, int count, const char *name, size_t length, bool *negated);
/* The index-th other name of a flag in its table, short ones first; NULL: no more. */
const char *cli_other_name(const cli_flag *flags, int count, const cli_flag *f, int index);
/* What to use instead of a flag, or with "" of a command, that other tools have; NULL: nothing is known. */
const char *cli_answer(const char *command, const char *name, size_t length);
bool cli_is_positional(const cli_flag *f);
bool cli_takes_rest(const cli_flag *f); /* "FILE..." */
/* The default as the help shows it, "" where there is none. */
void cli_standard(const cli_flag *f, char *out, size_t size);
/* Prints a command's help; where a listener was set, it gets the description instead. */
void cli_describe(const cli_description *d);
void cli_on_describe(void (*tell)(void *object, const cli_description *d), void *object);

/* Fills the flags. Returns -1 to go on, otherwise the exit code (help was printed, or a wrong use was told). `usage` is
 * what follows "propane ", `about` the paragraph under it. */
int cli_parse(int argc, char **argv, const cli_flag *flags, int count, const char *usage, const char *about);
/* Prints "propane COMMAND: message" and returns the exit code for the error's status. */
int cli_error(const char *command, const propane_error *err);
/* The same; if the message begins with `option`, a member's name, the flag replaces it. */
int cli_error_of(const char *command, const char *option, const propane_error *err);
/* Wrong use found after parsing. */
int cli_misuse(const char *command, const char *format, ...) BASE_PRINTF(2, 3);

/* Ctrl-C and SIGTERM set this; the second one ends the process at once. */
extern volatile bool cli_interrupted;
void cli_catch_signals(void);
/* From now on, a signal that ends this process removes what is being written first. Before any thread. */
void cli_clear_at_signals(void);
/* 128 and the signal's number; as after Ctrl-C where there was none. */
int cli_interrupt_code(void);
/* The same without a signal. */
void cli_interrupt(void);
/* Called then, perhaps from a signal's handler; NULL: nothing is. */
void cli_on_interrupt(void (*tell)(void *object), void *object);
/* The process's own command line, for starting itself again. */
extern int cli_argc;
extern char **cli_argv;

/* One that takes control characters; and, where NO_COLOR does not forbid it, colours. */
bool cli_is_terminal(int fd);
bool cli_has_colour(int fd);
/* The same by --color's word: "auto", "always", "never". */
bool cli_wants_colour(const char *word, int fd);
/* Columns of the terminal on standard output; 80 where it does not tell. */
int cli_width(void);
/* Prints to standard output, which is at `column`; lines that would be longer than `width` are broken at blanks and
 * go on after `indent` blanks. */
void cli_wrap(const char *text, int column, int indent, int width);
/* Flushes standard output; false: it cannot be written any more, and cli_finish will say so. */
bool cli_flush(void);
/* Flushes standard output; a full disk or a closed pipe there is an error of the command (exit code 1). */
int cli_finish(const char *command, int code);

#define COMMAND(task, name, ...) int cmd_##name(int argc, char **argv);
#include "apps/propane/commands.def"
#undef COMMAND

#endif
