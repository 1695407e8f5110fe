/* SPDX-License-Identifier: MIT
 * Prints completion scripts for bash, zsh and fish that contain all flags and the words that they accept, so that a
 * script runs no command.
 */
#include <stdio.h>
#include <string.h>

#include "apps/propane/help/help.h"
#include "core/base/text.h"

typedef struct completion_script {
    const cli_command *command;
    text keys; /* the flags already written, as " --flag ", so that a command's other form does not repeat them */
    void (*flag)(const cli_command *c, const cli_flag *f, const char *name);
} completion_script;

/* completion_is_file and completion_is_choice return whether a flag's value is a path, or one of a list of words. */
static bool completion_is_file(const cli_flag *f) {
    return f->words && (strstr(f->words, "FILE") || strstr(f->words, "DIR") || strstr(f->words, "MODEL"));
}

static bool completion_is_choice(const cli_flag *f) { return f->kind == CLI_CHOICE && f->words; }

static void completion_print_words(const cli_flag *f) {
    for (const char *c = f->words; *c; c++) putchar(*c == '|' ? ' ' : *c);
}

/* Writes each name of each flag once: "--json", "--no-json", "-n". */
static void completion_print(void *object, const cli_description *d) {
    completion_script *s = object;
    for (int i = 0; i < d->count; i++) {
        const cli_flag *f = &d->flags[i];
        char key[80];
        if (f->kind == CLI_HEADING || cli_is_positional(f)) continue;
        snprintf(key, sizeof key, " %s ", f->name);
        if (s->keys.data && strstr(s->keys.data, key)) continue;
        text_append(&s->keys, key);
        s->flag(s->command, f, f->name);
        const char *other = cli_other_name(d->flags, d->count, f, 0);
        if (other && other[1] != '-') s->flag(s->command, f, other);
        snprintf(key, sizeof key, "--no-%s", f->name + 2);
        if (f->kind == CLI_SWITCH) s->flag(s->command, f, key);
    }
}

static void completion_command(const cli_command *c,
                               void (*flag)(const cli_command *c, const cli_flag *f, const char *name)) {
    static cli_flag help = {"--help", CLI_SWITCH, NULL, .help = "explain the command"};
    completion_script s = {.command = c, .flag = flag};
    help_ask(c, completion_print, &s);
    flag(c, &help, "--help");
    text_deinit(&s.keys);
}

static void completion_commands(void) {
    for (int i = 0; i < cli_command_count; i++) printf("%s%s", i ? " " : "", cli_commands[i].name);
}

/* ---- bash ------------------------------------------------------------------------------------------------------------------- */

static void bash_name(const cli_command *c, const cli_flag *f, const char *name) { printf(" %s", name); }

static void bash_value(const cli_command *c, const cli_flag *f, const char *name) {
    if (completion_is_choice(f)) {
        printf("    %s:%s) choices='", c->name, name);
        completion_print_words(f);
        printf("' ;;\n");
    } else if (f->kind != CLI_SWITCH) {
        printf("    %s:%s) %s ;;\n", c->name, name, completion_is_file(f) ? "files=1" : "none=1");
    }
}

static void bash_print(void) {
    printf("# bash completion for propane: made by 'propane completion bash'.\n"
           "# shellcheck shell=bash disable=SC2207\n_propane() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    local command=${COMP_WORDS[1]} flags='' choices='' files='' none=''\n    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W '");
    completion_commands();
    printf("' -- \"$cur\"))\n        return\n    fi\n"
           "    if [ \"$prev\" = '=' ]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
           "    if [ \"$cur\" = '=' ]; then cur=''; fi\n    case \"$command:$prev\" in\n    help:help) choices='");
    completion_commands();
    printf("' ;;\n    completion:completion) choices='bash zsh fish' ;;\n");
    for (int i = 0; i < cli_command_count; i++) completion_command(&cli_commands[i], bash_value);
    printf("    esac\n    case \"$command\" in\n");
    for (int i = 0; i < cli_command_count; i++) {
        printf("    %s) flags='", cli_commands[i].name);
        completion_command(&cli_commands[i], bash_name);
        printf("' ;;\n");
    }
    printf("    esac\n"
           "    if [ -n \"$choices\" ]; then\n        COMPREPLY=($(compgen -W \"$choices\" -- \"$cur\"))\n"
           "    elif [ -n \"$none\" ]; then\n        compopt +o default 2> /dev/null\n"
           "    elif [ -z \"$files\" ] && [ \"${cur#-}\" != \"$cur\" ]; then\n"
           "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n    fi\n}\n"
           "complete -o default -F _propane propane\n");
}

/* ---- zsh -------------------------------------------------------------------------------------------------------------------- */

/* Prints a text in single quotes; `special` lists the characters that need a backslash. */
static void completion_quoted(const char *words, const char *special, const char *quote) {
    for (const char *c = words; *c; c++) {
        if (*c == '\'')
            printf("%s", quote);
        else if (strchr(special, *c))
            printf("\\%c", *c);
        else
            putchar(*c == '\n' ? ' ' : *c);
    }
}

static void zsh_flag(const cli_command *c, const cli_flag *f, const char *name) {
    const bool value = f->kind != CLI_SWITCH;
    printf(" \\\n            '%s%s%s[", f->kind == CLI_TEXTS ? "*" : "", name,
           !value           ? ""
           : name[1] == '-' ? "="
                            : "+");
    completion_quoted(f->help, "[]\\:", "'\\''");
    printf("]");
    if (value) {
        printf(":");
        completion_quoted(f->words && !completion_is_choice(f) ? f->words : "value", "[]\\:", "'\\''");
        printf(":");
        if (completion_is_choice(f)) {
            printf("(");
            completion_print_words(f);
            printf(")");
        } else {
            printf("%s", completion_is_file(f) ? "_files" : " ");
        }
    }
    printf("'");
}

static void zsh_print(void) {
    printf("#compdef propane\n# zsh completion for propane: made by 'propane completion zsh'.\n_propane() {\n"
           "    local -a commands\n    commands=(\n");
    for (int i = 0; i < cli_command_count; i++) {
        printf("        '%s:", cli_commands[i].name);
        completion_quoted(cli_commands[i].summary, ":\\", "'\\''");
        printf("'\n");
    }
    printf("    )\n    if (( CURRENT == 2 )); then\n        _describe -t commands command commands\n        return\n   "
           " fi\n"
           "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n    case $command in\n");
    for (int i = 0; i < cli_command_count; i++) {
        const cli_command *c = &cli_commands[i];
        printf("    %s)\n        _arguments", c->name);
        completion_command(c, zsh_flag);
        printf(" \\\n            '*:argument:%s'\n        ;;\n", strcmp(c->name, "help") == 0 ? "(${commands%%:*})"
                                                                 : strcmp(c->name, "completion") == 0
                                                                     ? "(bash zsh fish)"
                                                                     : "_files");
    }
    printf("    esac\n}\nif [ \"$funcstack[1]\" = _propane ]; then\n    _propane \"$@\"\nelse\n    compdef _propane "
           "propane\nfi\n");
}

/* ---- fish ------------------------------------------------------------------------------------------------------------------- */

static void fish_flag(const cli_command *c, const cli_flag *f, const char *name) {
    printf("complete -c propane -n '__fish_seen_subcommand_from %s' %s %s", c->name, name[1] == '-' ? "-l" : "-s",
           name + (name[1] == '-' ? 2 : 1));
    if (completion_is_choice(f)) {
        printf(" -x -a '");
        completion_print_words(f);
        printf("'");
    } else if (f->kind != CLI_SWITCH) {
        printf(completion_is_file(f) ? " -r -F" : " -x");
    }
    printf(" -d '");
    completion_quoted(f->help, "\\", "\\'");
    printf("'\n");
}

static void fish_print(void) {
    printf("# fish completion for propane: made by 'propane completion fish'.\n");
    for (int i = 0; i < cli_command_count; i++) {
        const cli_command *c = &cli_commands[i];
        printf("complete -c propane -f -n __fish_use_subcommand -a %s -d '", c->name);
        completion_quoted(c->summary, "\\", "\\'");
        printf("'\n");
    }
    for (int i = 0; i < cli_command_count; i++) completion_command(&cli_commands[i], fish_flag);
    printf("complete -c propane -f -n '__fish_seen_subcommand_from help' -a '");
    completion_commands();
    printf("'\ncomplete -c propane -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n");
}

void help_print_completion(const char *shell) {
    if (strcmp(shell, "bash") == 0)
        bash_print();
    else if (strcmp(shell, "zsh") == 0)
        zsh_print();
    else
        fish_print();
}
