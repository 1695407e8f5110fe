/* SPDX-License-Identifier: MIT
 * The command's shared tools: flags, messages, exit codes and signals. Only apps/propane prints or exits.
 *
 * Exit codes: 0 success; 1 failure (message on standard error); 2 wrong use (the message names the flag and the
 * command's help); 3 check --strict: an operation leaves the engine; 4 outputs of run or diff have NaN or infinity;
 * 130 stopped by Ctrl-C after a clean end, 143 by SIGTERM, 129 by SIGHUP.
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
    const char *name; /* "--steps", "FILE" for a positional argument, or "FILE..." for all remaining ones */
    cli_kind kind;
    void *out;         /* holds the default; NULL for headings */
    double min, max;   /* CLI_INT, CLI_REAL */
    const char *words; /* CLI_CHOICE: "a|b|c"; otherwise the name of the value in the help ("N", "FILE") */
    const char *help;
    const char *standard; /* shown as the default instead of `*out`; NULL shows `*out`. `out` may be NULL if set */
    bool required;
    bool *given;        /* may be NULL: set if the flag is on the command line */
    const char *writes; /* the kind of file that is written under this name, as in apps/propane/written.def */
    /* If not NULL, receives the value instead of `out`, with the flag's name without "--". A switch has the value
     * "true" or "false". The error begins with the name. */
    propane_status (*set)(void *object, const char *name, const char *value, propane_error *err);
    void *object;
} cli_flag;

typedef struct cli_list { /* the values of "NAME..." */
    char **items;
    int count;
} cli_list;

typedef struct cli_command { /* a row of apps/propane/commands.def */
    const char *task, *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    bool draws;
    const char *summary, *also, *common, *examples;
} cli_command;

/* How a command describes itself for its help. */
typedef struct cli_description {
    const char *command;
    const cli_flag *flags;
    int count;
    const char *usage, *about; /* as in cli_parse */
} cli_description;

/* Filters standard output from now on, if it is a terminal, so that printed text cannot control the terminal. */
void cli_filter_output(void);

extern const cli_command cli_commands[];
extern const int cli_command_count;
const cli_command *cli_find_command(const char *name); /* NULL if there is none */
/* Prints the commands by task. */
void cli_print_commands(FILE *out);

/* A search for the nearest word, for "did you mean". `found` is NULL if none is near. */
typedef struct cli_nearest {
    const char *word, *found;
    size_t edits;
} cli_nearest;
void cli_compare(cli_nearest *n, const char *candidate, const char *meant);

/* Returns the flag called `name` (of `length` bytes) in a table. Accepts its own name or one from
 * apps/propane/aliases.def, treats "_" as "-", and sets *negated for a switch's --no-NAME. Returns NULL if there is
 * none. */
const cli_flag *cli_find_flag(const cli_flag *flags, int count, const char *name, size_t length, bool *negated);
/* Returns the index-th alias of a flag in its table, short ones first; NULL if there are no more. */
const char *cli_other_name(const cli_flag *flags, int count, const cli_flag *f, int index);
/* Returns the replacement for a flag of other tools, or with "" for a command of other tools. NULL if none is
 * known. */
const char *cli_answer(const char *command, const char *name, size_t length);
bool cli_is_positional(const cli_flag *f);
bool cli_takes_rest(const cli_flag *f); /* "FILE..." */
/* Writes the default as the help shows it, "" if there is none. */
void cli_standard(const cli_flag *f, char *out, size_t size);
/* Prints a command's help. If a listener is set, it gets the description instead. */
void cli_describe(const cli_description *d);
void cli_on_describe(void (*listener)(void *object, const cli_description *d), void *object);

/* Fills the flags. Returns -1 to continue, otherwise the exit code (after printing help or a usage error). `usage`
 * follows "propane ", and `about` is the paragraph under it. */
int cli_parse(int argc, char **argv, const cli_flag *flags, int count, const char *usage, const char *about);
/* Returns the first flag on the command line that is one of `names` ("--keep|--trace"), or NULL. */
const char *cli_given(const char *names);
/* Refuses the flags in `names`, which would have no effect: "--keep does not apply to WHAT". Returns -1 if none is
 * given, otherwise the exit code. */
int cli_refuse(const char *command, const char *names, const char *what);
/* Prints "propane COMMAND: message" and returns the exit code for the error's status. */
int cli_error(const char *command, const propane_error *err);
/* Does the same; if the message begins with `option`, a member's name, the flag replaces it. */
int cli_error_of(const char *command, const char *option, const propane_error *err);
/* Reports wrong use that was found after parsing. */
int cli_misuse(const char *command, const char *format, ...) BASE_PRINTF(2, 3);

/* Set by Ctrl-C and SIGTERM; the second signal ends the process at once. */
extern volatile bool cli_interrupted;
void cli_catch_signals(void);
/* Makes a signal that ends this process first remove unfinished files. Call it before any thread starts. */
void cli_clear_at_signals(void);
/* Returns 128 plus the signal's number, or the code of Ctrl-C if there was no signal. */
int cli_interrupt_code(void);
/* Interrupts as a signal would. */
void cli_interrupt(void);
/* Sets a function to call at an interrupt, perhaps from a signal handler; NULL for none. */
void cli_on_interrupt(void (*call)(void *object), void *object);
/* The process's command line, for restarting itself. */
extern int cli_argc;
extern char **cli_argv;

/* Refuses a path to an existing file that is not of a kind from apps/propane/written.def. Empty files and what is not a
 * file are accepted. cli_parse does this for flags with `writes`. */
PROPANE_CHECK propane_status cli_check_written(const char *path, const char *kind, propane_error *err);

/* Returns whether propane_file_kind returns this kind for the file. */
bool cli_file_is(const char *path, const char *kind);

/* Return whether `fd` is a terminal that interprets control characters, and whether it may have colours, which
 * NO_COLOR forbids. */
bool cli_is_terminal(int fd);
bool cli_has_colour(int fd);
/* Decides the same by the value of --color: "auto", "always", "never". */
bool cli_wants_colour(const char *word, int fd);
/* Returns the columns of the terminal on standard output, or 80 if they are unknown. */
int cli_width(void);
/* Prints to standard output, which is at `column`. Breaks lines longer than `width` at blanks and continues after
 * `indent` blanks. */
void cli_wrap(const char *text, int column, int indent, int width);
/* Flushes standard output. Returns false if it can no longer be written; cli_finish will report that. */
bool cli_flush(void);
/* Flushes standard output. A full disk or a closed pipe is an error of the command (exit code 1). */
int cli_finish(const char *command, int code);

#define COMMAND(task, name, ...) int cmd_##name(int argc, char **argv);
#include "apps/propane/commands.def"
#undef COMMAND

#endif
