/* SPDX-License-Identifier: MIT
 * The command `propane`: finds the subcommand in one table and hands over. Only this folder prints or exits.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/cli.h"

/* What the library tells that is no error. */
static void main_note(void *context, const char *sentence) {
    (void)context;
    fprintf(stderr, "propane: %s\n", sentence);
}

volatile bool cli_interrupted;
int cli_argc;
char **cli_argv;
static int output_errno; /* of the first write to standard output that failed: later calls no longer know */

static void (*volatile main_tell)(void *object);
static void *volatile main_told;

void cli_interrupt(void) {
    cli_interrupted = true;
    if (main_tell) main_tell(main_told);
}

void cli_on_interrupt(void (*tell)(void *object), void *object) {
    main_tell = NULL;
    main_told = object;
    main_tell = tell;
}

static void main_on_signal(int number) {
    if (cli_interrupted) _exit(128 + number);
    cli_interrupt();
}

void cli_catch_signals(void) {
    struct sigaction action = {.sa_handler = main_on_signal};
    sigemptyset(&action.sa_mask);
    struct sigaction before;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL); /* nohup */
}

bool cli_is_terminal(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool cli_has_colour(int fd) {
    const char *none = getenv("NO_COLOR");
    return cli_is_terminal(fd) && !(none && *none);
}

bool cli_wants_colour(const char *word, int fd) {
    return strcmp(word, "always") == 0 || (strcmp(word, "auto") == 0 && cli_has_colour(fd));
}

int cli_width(void) {
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

void cli_wrap(const char *text, int column, int indent, int width) {
    while (*text) {
        size_t end = strcspn(text, "\n"), room = column < width ? (size_t)(width - column) : 1, n = end;
        if (end > room) {
            n = room + 1;
            while (n > 0 && text[n - 1] != ' ') n--;
            n = n > 0 ? n - 1 : strcspn(text, " \n"); /* a word longer than the line stands out */
        }
        printf("%.*s", (int)n, text);
        text += n;
        if (*text == '\n') {
            printf("\n");
            column = 0;
            text++;
        } else if (*text) {
            printf("\n%*s", indent, "");
            column = indent;
            while (*text == ' ') text++;
        }
    }
}

bool cli_flush(void) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    if (!output_errno && !errno && write(STDOUT_FILENO, "\n", 1) >= 0)
        errno = EIO; /* printf failed and lost the reason: ask */
    if (!output_errno) output_errno = errno ? errno : EIO;
    return false;
}

int cli_finish(const char *command, int code) {
    size_t bytes;
    if (code == CLI_OK && mem_failed(&bytes)) { /* the last guard: something may be missing from what was shown */
        fprintf(stderr, "propane %s: no memory for %zu bytes: its results are not whole\n", command, bytes);
        code = CLI_FAILED;
    }
    propane_error err = {0};
    if (code == CLI_OK && file_map_check(&err) != PROPANE_OK) {
        fprintf(stderr, "propane %s: %s\n", command, err.text);
        code = CLI_FAILED;
    }
    if (cli_flush()) return code;
    if (output_errno != EPIPE)
        fprintf(stderr, "propane %s: standard output cannot be written: %s\n", command, strerror(output_errno));
    return CLI_FAILED;
}

const cli_command cli_commands[] = {
    {"train", "train a model on a text", cmd_train, true},
    {"watch", "a training run as a screen that follows it", cmd_watch, true},
    {"generate", "let a model write", cmd_generate},
    {"chat", "talk with a model", cmd_chat},
    {"serve", "a model behind OpenAI's completions and chat endpoints", cmd_serve},
    {"eval", "a model's loss on a text", cmd_eval, true},
    {"tokenize", "learn a vocabulary from a text, write the text as token ids", cmd_tokenize},
    {"estimate", "time and energy of a program on a Neural Engine, by a model", cmd_estimate},
    {"plan", "the kernels of a training step: what runs where", cmd_plan},
    {"run", "run a Core ML package or a MIL program", cmd_run},
    {"diff", "where two models, devices or precisions part", cmd_diff},
    {"show", "what is in a file: programs, weights, models, tokenizers", cmd_show},
    {"bench", "what a device does: products, convolutions, weights, queue", cmd_bench},
    {"check", "which known rules of the Neural Engines a program violates", cmd_check},
    {"convert", "models and MIL programs into other forms", cmd_convert},
    {"compile", "a MIL program to the engine's registers, for an M1", cmd_compile},
    {"classes", "Objective-C classes in a Mach-O file or a shared cache", cmd_classes},
    {"trace", "what a command asks of Apple's Neural Engine classes", cmd_trace},
    {"power", "the energy that this machine uses, or a command", cmd_power},
    {"ops", "the MIL operations that Propane knows", cmd_ops},
    {"devices", "the devices of this machine, and why one is missing", cmd_devices},
    {"version", "the version and what it was built with", cmd_version},
};
const int cli_command_count = (int)(sizeof cli_commands / sizeof cli_commands[0]);

static void main_print_usage(FILE *out) {
    fprintf(out, "propane trains, runs and checks neural networks as MIL programs, the ones that an\n"
                 "Apple Neural Engine takes, on any machine.\n\nusage: propane COMMAND [flags]\n\n");
    for (int i = 0; i < cli_command_count; i++)
        fprintf(out, "  %-10s %s\n", cli_commands[i].name, cli_commands[i].summary);
    fprintf(out, "\n'propane COMMAND --help' explains a command.\n");
}

/* How many single edits lie between two short words: for "did you mean". */
static size_t main_distance(const char *a, const char *b) {
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

static int main_unknown_command(const char *name) {
    const char *near = NULL;
    size_t best = 3;
    for (int i = 0; i < cli_command_count; i++) {
        size_t d = main_distance(name, cli_commands[i].name);
        if (d < best) {
            best = d;
            near = cli_commands[i].name;
        }
    }
    fprintf(stderr, "propane: there is no command '%.60s'%s%s%s\nTry 'propane --help'.\n", name,
            near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return CLI_USAGE;
}

static const cli_command *main_find_command(const char *name) {
    for (int i = 0; i < cli_command_count; i++)
        if (strcmp(name, cli_commands[i].name) == 0) return &cli_commands[i];
    return NULL;
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN); /* a failed write is an error with a message, not a silent death */
    signal(SIGXFSZ, SIG_IGN);
    file_map_guard();
    propane_set_log(main_note, NULL);
    cli_argc = argc;
    cli_argv = argv;
    if (argc < 2) {
        main_print_usage(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    bool help = strcmp(name, "help") == 0 && argc > 2; /* help COMMAND is COMMAND --help */
    if (help)
        name = argv[2];
    else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        main_print_usage(stdout);
        return cli_finish("help", CLI_OK);
    }
    if (strcmp(name, "--version") == 0) name = "version";
    const cli_command *command = main_find_command(name);
    if (!command) return main_unknown_command(name);
    if (isatty(STDOUT_FILENO) && !command->draws) cli_filter_output();
    char flag[] = "--help", *ask[] = {(char *)(uintptr_t)command->name, flag, NULL};
    argv[1] = ask[0];
    return cli_finish(command->name, help ? command->run(2, ask) : command->run(argc - 1, argv + 1));
}
