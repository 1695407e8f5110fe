/* SPDX-License-Identifier: MIT
 * The command `propane`: finds the subcommand in one table and calls it. Only this folder prints or exits.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "core/base/file.h"
#include "core/base/memory.h"

/* Prints a note from the library, which is not an error, to standard error. */
static void main_note(void *context, const char *sentence) {
    (void)context;
    fprintf(stderr, "propane: %s\n", sentence);
}

int cli_argc;
char **cli_argv;
static int output_errno; /* errno of the first failed write to standard output, because later calls overwrite errno */

bool cli_is_terminal(int fd) {
    const char *term = getenv("TERM");
    return isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

bool cli_file_is(const char *path, const char *kind) {
    const char *own = propane_file_kind(path);
    return own && strcmp(own, kind) == 0;
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
            n = n > 0 ? n - 1 : strcspn(text, " \n"); /* a word longer than the line is not broken */
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
        errno = EIO; /* the errno of a failed printf is lost, so the write above tries to fail again and to set it */
    if (!output_errno) output_errno = errno ? errno : EIO;
    return false;
}

int cli_finish(const char *command, int code) {
    size_t bytes;
    if (code == CLI_OK && mem_failed(&bytes)) { /* the last check: something may be missing from the output */
        fprintf(stderr, "propane %s: out of memory (%zu bytes could not be allocated); the results are incomplete\n",
                command, bytes);
        code = CLI_FAILED;
    }
    propane_error err = {0};
    if (code == CLI_OK && file_map_check(&err) != PROPANE_OK) {
        fprintf(stderr, "propane %s: %s\n", command, err.text);
        code = CLI_FAILED;
    }
    if (cli_flush()) return code;
    if (output_errno != EPIPE)
        fprintf(stderr, "propane %s: cannot write to standard output: %s\n", command, strerror(output_errno));
    return CLI_FAILED;
}

static int main_unknown_command(const char *name) {
    const char *answer = cli_answer("", name, strlen(name));
    if (answer) {
        fprintf(stderr, "propane: there is no command '%.60s': %s\nTry 'propane --help'.\n", name, answer);
        return CLI_USAGE;
    }
    cli_nearest near = {.word = name};
    for (int i = 0; i < cli_command_count; i++) cli_compare(&near, cli_commands[i].name, cli_commands[i].name);
    fprintf(stderr, "propane: there is no command '%.60s'%s%s%s\nTry 'propane --help'.\n", name,
            near.found ? "; did you mean '" : "", near.found ? near.found : "", near.found ? "'?" : "");
    return CLI_USAGE;
}

/* Returns the command that "-h", "--version" or a similar flag selects; otherwise the word itself. */
static const char *main_command_name(const char *word) {
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return "help";
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0) return "version";
    return word;
}

/* Opens /dev/null for each closed standard stream. Otherwise a file that is opened later would get the stream's
 * descriptor, and messages would be written to that file. /dev/null is opened for the opposite direction, so that
 * using the stream is still an error. */
static void main_fill_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY); /* takes the lowest free number: fd */
}

int main(int argc, char **argv) {
    main_fill_streams();
    signal(SIGPIPE, SIG_IGN); /* a failed write is an error with a message, not a silent death */
    signal(SIGXFSZ, SIG_IGN);
    cli_clear_at_signals();
    file_map_guard();
    file_keep_inputs();
    propane_set_log(main_note, NULL);
    cli_argc = argc;
    cli_argv = argv;
    if (argc < 2) {
        cli_print_commands(stderr);
        return CLI_USAGE;
    }
    const char *name = main_command_name(argv[1]);
    const bool help = strcmp(name, "help") == 0 && argc == 3 && argv[2][0] != '-'; /* runs COMMAND --help */
    if (help) name = main_command_name(argv[2]);
    const cli_command *command = cli_find_command(name);
    if (!command) return main_unknown_command(name);
    if (isatty(STDOUT_FILENO) && !command->draws) cli_filter_output();
    char flag[] = "--help", *ask[] = {(char *)(uintptr_t)command->name, flag, NULL};
    argv[1] = ask[0];
    return cli_finish(command->name, help ? command->run(2, ask) : command->run(argc - 1, argv + 1));
}
