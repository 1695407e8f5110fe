/* SPDX-License-Identifier: MIT
 * Declares what all subcommands share: flags, messages, exit codes and signals. Only apps/propane prints or exits.
 *
 * The exit code is 0 for success, 1 for a failure, and 2 for wrong use. A message on standard error names the failure,
 * or the wrong flag and the command's help. check --strict exits with 3 if an operation leaves the engine, and with 2
 * if there are warnings. run and diff exit with 4 if outputs contain NaN or infinity. A command that ends cleanly after
 * Ctrl-C exits with 130, after SIGTERM with 143, and after SIGHUP with 129.
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
    CLI_TEXTS,  /* cli_list: the flag may be given up to `max` times; `items` has room for that many values */
    CLI_CHOICE, /* const char *, one of the words in `words`, separated by '|' */
    CLI_HEADING /* not a flag, but a heading in the help */
} cli_kind;

typedef struct cli_flag {
    const char *name; /* "--steps", "FILE" for a positional argument, or "FILE..." for all remaining ones */
    cli_kind kind;
    void *out;         /* holds the default; NULL for headings */
    double min, max;   /* CLI_INT, CLI_REAL */
    const char *words; /* CLI_CHOICE: "a|b|c"; otherwise the name of the value in the help ("N", "FILE") */
    const char *help;
    const char *standard; /* shown as the default instead of `*out`; NULL shows `*out`. `out` may be NULL with `set` */
    bool required;
    bool *given;        /* may be NULL: set if the flag is on the command line */
    const char *writes; /* the kind of file that the command writes to this path, as in apps/propane/written.def */
    /* If not NULL, called with the flag's name without "--" and with the value, which is then not stored in `out`. The
     * value of a switch is "true" or "false". An error message begins with the name. */
    propane_status (*set)(void *object, const char *name, const char *value, propane_error *err);
    void *object;
} cli_flag;

typedef struct cli_list { /* the values of "NAME..." or of a flag that may be given several times */
    char **items;
    int count;
} cli_list;

typedef struct cli_command { /* a row of apps/propane/commands.def */
    const char *task, *name;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    bool draws;
    const char *summary, *also, *common, *examples;
} cli_command;

/* The parts of a command's help. */
typedef struct cli_description {
    const char *command;
    const cli_flag *flags;
    int count;
    const char *usage, *about; /* as in cli_parse */
} cli_description;

/* Filters standard output, which must be a terminal, from now on, so that printed text cannot control the terminal. */
void cli_filter_output(void);

extern const cli_command cli_commands[];
extern const int cli_command_count;
const cli_command *cli_find_command(const char *name); /* returns NULL if there is no such command */
/* Prints the commands by task. */
void cli_print_commands(FILE *out);

/* A search for the word that is most similar to `word`, for "did you mean". `found` is NULL if no candidate is
 * similar. */
typedef struct cli_nearest {
    const char *word, *found;
    size_t edits;
} cli_nearest;
/* Sets `found` to `meant` if `candidate` is more similar to the word than all earlier candidates. */
void cli_compare(cli_nearest *n, const char *candidate, const char *meant);

/* Returns the flag in a table whose own name, or name in apps/propane/aliases.def, is `name` (of `length` bytes).
 * Treats "_" as "-", and sets *negated for a switch's --no-NAME. Returns NULL if there is no such flag. */
const cli_flag *cli_find_flag(const cli_flag *flags, int count, const char *name, size_t length, bool *negated);
/* Returns the index-th alias of a flag in its table, short ones first; NULL if there are no more. */
const char *cli_other_name(const cli_flag *flags, int count, const cli_flag *f, int index);
/* Returns the advice for a flag of other tools, or, if `command` is "", for a command of other tools. Returns NULL if
 * there is none. */
const char *cli_answer(const char *command, const char *name, size_t length);
bool cli_is_positional(const cli_flag *f);
bool cli_takes_rest(const cli_flag *f); /* whether its name ends in "...", as "FILE..." */
/* Writes the flag's default as the help shows it, or "" if there is none. */
void cli_standard(const cli_flag *f, char *out, size_t size);
/* Prints a command's help, or passes the description to the listener if cli_on_describe has set one. */
void cli_describe(const cli_description *d);
void cli_on_describe(void (*listener)(void *object, const cli_description *d), void *object);

/* Parses the command line and sets the flags. Returns -1 to continue, otherwise the exit code (after printing help or a
 * usage error). `usage` is the text after "propane " in the help, and `about` is the paragraph under it. */
int cli_parse(int argc, char **argv, const cli_flag *flags, int count, const char *usage, const char *about);
/* Returns the first flag on the command line that is one of `names` ("--keep|--trace"), or NULL. */
const char *cli_given(const char *names);
/* Refuses the flags in `names`, which would have no effect, with the message "--keep does not apply to WHAT". Returns
 * -1 if none of them was given, otherwise the exit code. */
int cli_refuse(const char *command, const char *names, const char *what);
/* Prints "propane COMMAND: message" and returns the exit code for the error's status. */
int cli_error(const char *command, const propane_error *err);
/* Prints the error as cli_error does. If the message begins with `option`, the name of a member, puts "--" before
 * it. */
int cli_error_of(const char *command, const char *option, const propane_error *err);
/* Prints a message about wrong use that cli_parse did not find, and returns the exit code. */
int cli_misuse(const char *command, const char *format, ...) BASE_PRINTF(2, 3);

/* Whether a signal (Ctrl-C, SIGTERM or SIGHUP) or cli_interrupt has asked the command to end. A second signal ends the
 * process at once. */
extern volatile bool cli_interrupted;
/* Makes signals set cli_interrupted from now on. */
void cli_catch_signals(void);
/* Makes the process remove unfinished files before a signal ends it. Must be called before any thread starts. */
void cli_clear_at_signals(void);
/* Returns 128 plus the number of the first signal, or CLI_INTERRUPTED if there was none. */
int cli_interrupt_code(void);
/* Sets cli_interrupted and calls the function of cli_on_interrupt, as a signal does. */
void cli_interrupt(void);
/* Sets the function to call at an interrupt, which may be in a signal handler; NULL for none. */
void cli_on_interrupt(void (*call)(void *object), void *object);
/* The process's command line, with which the process can restart itself. */
extern int cli_argc;
extern char **cli_argv;

/* Refuses the path of an existing file that is not of `kind`, a name in apps/propane/written.def. Accepts empty files
 * and paths that are not regular files. cli_parse checks the flags with `writes`. */
PROPANE_CHECK propane_status cli_check_written(const char *path, const char *kind, propane_error *err);

/* Returns whether propane_file_kind returns `kind` for the file. */
bool cli_file_is(const char *path, const char *kind);

/* cli_is_terminal returns whether `fd` is a terminal that interprets control characters. cli_has_colour returns whether
 * it may also have colours, which NO_COLOR forbids. */
bool cli_is_terminal(int fd);
bool cli_has_colour(int fd);
/* Returns whether to use colours on `fd`. `word` is the value of --color: "auto", "always", "never". */
bool cli_wants_colour(const char *word, int fd);
/* Returns the columns of the terminal on standard output, or 80 if they are unknown. */
int cli_width(void);
/* Prints a text to standard output, where the current column is `column`. Breaks lines longer than `width` at blanks,
 * and indents the continued lines by `indent` blanks. */
void cli_wrap(const char *text, int column, int indent, int width);
/* Flushes standard output. Returns false if a write failed; cli_finish will report the error. */
bool cli_flush(void);
/* Flushes standard output and returns the exit code of the command: `code`, or 1 if memory ran out, or if an input file
 * or standard output failed. Prints the error, except for a closed pipe. */
int cli_finish(const char *command, int code);

#define COMMAND(task, name, ...) int cmd_##name(int argc, char **argv);
#include "apps/propane/commands.def"
#undef COMMAND

#endif
