/* SPDX-License-Identifier: MIT
 * propane chat: holds a conversation with a model, line by line, on a terminal or through pipes. The command uses the
 * model's chat format, and earlier turns stay in the cache. If the context is full, the oldest turns are dropped with a
 * notice.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/line_editor.h"
#include "apps/propane/cmd/model_flags.h"
#include "core/base/arena.h"
#include "core/base/text.h"

typedef struct chat_job {
    opened_model m;
    const char *chat_name, *system;
    propane_sampling sampling;
    propane_chat *chat;
    arena *arena; /* the turns */
    propane_chat_message *messages;
    int message_count, room;
    text answer;
    line_editor *editor;  /* NULL if lines are read without one */
    bool terminal, began; /* began: a part of the answer has been printed */
} chat_job;

/* ---- signals -------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_answer, leave;

static void cmd_chat_on_signal(int number) {
    if (number == SIGINT)
        stop_answer = 1;
    else
        leave = 1;
}

/* Installs the handlers without SA_RESTART, so that a signal also ends the wait for a line. */
static void cmd_chat_catch_signals(void) {
    struct sigaction action = {.sa_handler = cmd_chat_on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- lines ---------------------------------------------------------------------------------------------------------- */

/* Reads a line with the editor. */
static bool cmd_chat_edit_line(const chat_job *j, text *line) {
    const char *prompt = "> ";
    for (;;) {
        const line_result result = line_editor_read(j->editor, prompt, line);
        if (result == LINE_SIGNAL && !leave) {
            text_clear(line);
            if (stop_answer) printf("\n(Ctrl-D leaves)\n");
            stop_answer = 0;
            prompt = "> ";
            (void)cli_flush();
            continue;
        }
        if (result != LINE_READ) return line->length > 0 && !leave;
        if (!line->length || line->data[line->length - 1] != '\\') break;
        line->data[line->length - 1] = '\n';
        prompt = "  ";
    }
    if (line->length) line_editor_remember(j->editor, line->data);
    return true;
}

/* Reads a line without its newline. A line that ends in a backslash continues in the next one. Returns false if there
 * are no more lines. */
static bool cmd_chat_read_line(const chat_job *j, text *line) {
    text_clear(line);
    if (j->editor) return cmd_chat_edit_line(j, line);
    if (j->terminal) printf("> ");
    (void)cli_flush();
    for (;;) {
        int c = getc(stdin);
        if (c == EOF && ferror(stdin) && errno == EINTR && !leave) {
            clearerr(stdin);
            if (!stop_answer) continue;
            stop_answer = 0; /* after Ctrl-C while a person types, the line starts again */
            text_clear(line);
            printf(j->terminal ? "\n(Ctrl-D leaves)\n> " : "");
            (void)cli_flush();
            continue;
        }
        if (c == EOF || leave) return line->length > 0 && !leave;
        if (c == '\n' && line->length && line->data[line->length - 1] == '\\') {
            line->data[line->length - 1] = '\n';
            if (j->terminal) printf("  ");
            (void)cli_flush();
        } else if (c == '\n') {
            return true;
        } else if (c != '\r' && c != 0) {
            char byte = (char)c;
            text_append_n(line, &byte, 1);
        }
    }
}

/* ---- the conversation ------------------------------------------------------------------------------------------------- */

static propane_status cmd_chat_say(chat_job *j, const char *role, const char *content, propane_error *err) {
    if (j->message_count == j->room) {
        propane_chat_message *more = ARENA_ARRAY(j->arena, j->room + 64, propane_chat_message);
        if (!more) return propane_fail_memory(err, 0);
        if (j->message_count) memcpy(more, j->messages, (size_t)j->message_count * sizeof *more);
        j->messages = more;
        j->room += 64;
    }
    char *copy = arena_string(j->arena, content);
    if (!copy) return propane_fail_memory(err, strlen(content));
    j->messages[j->message_count++] = (propane_chat_message){role, copy};
    return PROPANE_OK;
}

static bool cmd_chat_has_system(const chat_job *j) {
    return j->message_count > 0 && strcmp(j->messages[0].role, "system") == 0;
}

/* Inserts or replaces the system message. Removes it if `content` is NULL or "". */
static propane_status cmd_chat_set_system(chat_job *j, const char *content, propane_error *err) {
    if (cmd_chat_has_system(j)) {
        j->message_count--;
        memmove(j->messages, j->messages + 1, (size_t)j->message_count * sizeof *j->messages);
    }
    if (!content || !*content) return PROPANE_OK;
    PROPANE_TRY(cmd_chat_say(j, "system", content, err));
    propane_chat_message system = j->messages[j->message_count - 1];
    memmove(j->messages + 1, j->messages, (size_t)(j->message_count - 1) * sizeof *j->messages);
    j->messages[0] = system;
    return PROPANE_OK;
}

static bool cmd_chat_on_step(void *context, const propane_token *step) {
    chat_job *j = context;
    const char *shown = step->text;
    size_t length = step->length;
    text_append_n(&j->answer, step->text, step->length);
    while (!j->began && length && (*shown == ' ' || *shown == '\n')) {
        shown++;
        length--;
    }
    j->began |= length > 0;
    fwrite(shown, 1, length, stdout);
    return cli_flush() && !stop_answer && !leave;
}

static void cmd_chat_print_finish(const chat_job *j, const propane_generation *result) {
    if (result->finish == PROPANE_FINISH_LENGTH)
        fprintf(stderr, "(stopped after %" PRId64 " token%s; --count allows more)\n", result->made,
                text_plural(result->made));
    else if (result->finish == PROPANE_FINISH_CONTEXT)
        fprintf(stderr, "(stopped: the context of %" PRId64 " positions is full)\n",
                propane_generator_context(j->m.generator));
    else if (result->finish == PROPANE_FINISH_CALLER && !leave)
        fprintf(stderr, "(stopped)\n");
}

/* Drops the oldest `dropped` messages after the system message, because they no longer fit. */
static void cmd_chat_drop(chat_job *j, int dropped) {
    const int first = cmd_chat_has_system(j);
    if (!dropped) return;
    fprintf(stderr, "(the context is full: the oldest %d messages were dropped)\n", dropped);
    j->message_count -= dropped;
    memmove(j->messages + first, j->messages + first + dropped,
            (size_t)(j->message_count - first) * sizeof *j->messages);
}

/* Generates and prints the model's answer to the encoded conversation. Frees `ids`. */
static propane_status cmd_chat_write(chat_job *j, int32_t *ids, int64_t count, propane_generation *result,
                                     propane_error *err) {
    text_clear(&j->answer);
    j->began = false;
    stop_answer = 0;
    propane_status status =
        propane_generate_ids(j->m.generator, ids, count, &j->sampling, cmd_chat_on_step, j, result, err);
    propane_free(ids);
    j->sampling.seed += 0x9e3779b97f4a7c15u;
    return status;
}

/* Generates the next answer. If the last question cannot be encoded, or alone does not fit, removes it with a
 * message. */
static propane_status cmd_chat_answer(chat_job *j, propane_error *err) {
    int64_t context = propane_generator_context(j->m.generator), id_count = 0;
    int64_t space = j->sampling.count < context / 4 ? j->sampling.count : context / 4;
    int32_t *ids = NULL;
    int dropped = 0;
    propane_generation result = {.size = sizeof result};
    propane_status status =
        propane_chat_encode(j->chat, j->messages, j->message_count, context - space, &ids, &id_count, &dropped, err);
    cmd_chat_drop(j, dropped);
    if (status == PROPANE_ERR_LIMIT || status == PROPANE_ERR_INVALID) {
        fprintf(stderr, "(%s)\n", err->text);
        j->message_count--;
        return PROPANE_OK;
    }
    if (status) return status;
    PROPANE_TRY(cmd_chat_write(j, ids, id_count, &result, err));
    printf("\n");
    (void)cli_flush();
    cmd_chat_print_finish(j, &result);
    stop_answer = 0;
    if (j->answer.failed) return propane_fail_memory(err, j->answer.capacity);
    const char *said = j->answer.data ? j->answer.data : "";
    return cmd_chat_say(j, "assistant", said + strspn(said, " \n"), err);
}

/* ---- commands ------------------------------------------------------------------------------------------------------- */

/* Returns the part of the line after `word` and blanks, or NULL if the line is another command. */
static const char *cmd_chat_command_rest(const char *line, const char *word) {
    size_t n = strlen(word);
    if (strncmp(line, word, n) != 0 || (line[n] && line[n] != ' ')) return NULL;
    return line + n + strspn(line + n, " ");
}

/* Runs the line if it is a command, and returns whether it is one. Sets *done if the command ends the conversation. */
static bool cmd_chat_run_command(chat_job *j, const char *line, bool *done, propane_status *status,
                                 propane_error *err) {
    const char *rest;
    if (line[0] != '/') return false;
    if ((rest = cmd_chat_command_rest(line, "/reset"))) {
        bool kept = cmd_chat_has_system(j);
        j->message_count = kept;
        fprintf(stderr, "(a new conversation%s)\n", kept ? "; the system message stays" : "");
    } else if ((rest = cmd_chat_command_rest(line, "/system"))) {
        *status = cmd_chat_set_system(j, rest, err);
        if (!*status) fprintf(stderr, *rest ? "(the system message is set)\n" : "(no system message)\n");
    } else if (cmd_chat_command_rest(line, "/quit")) {
        *done = true;
    } else {
        fprintf(stderr, "(/reset starts a new conversation; /system TEXT sets the system message; /quit or Ctrl-D "
                        "exits; Ctrl-C stops an answer; a line that ends with a backslash continues on the next)\n");
    }
    return true;
}

static propane_status cmd_chat_talk(chat_job *j, propane_error *err) {
    text line = {0};
    bool done = false;
    propane_status status = cmd_chat_set_system(j, j->system, err);
    cmd_chat_catch_signals();
    if (j->terminal) j->editor = line_editor_open();
    if (j->terminal)
        fprintf(stderr, "(%s uses the chat format '%s'; /help lists the commands)\n", j->m.model,
                propane_chat_format(j->chat));
    while (!status && !done && cmd_chat_read_line(j, &line)) {
        if (line.failed) {
            status = propane_fail_memory(err, line.capacity);
        } else if (line.length && !cmd_chat_run_command(j, line.data, &done, &status, err)) {
            status = cmd_chat_say(j, "user", line.data, err);
            if (!status) status = cmd_chat_answer(j, err);
        }
        if (!cli_flush()) break;
    }
    if (j->terminal && !done) printf("\n");
    line_editor_close(j->editor);
    text_deinit(&line);
    return status;
}

static propane_status cmd_chat_open_model(chat_job *j, propane_error *err) {
    PROPANE_TRY(propane_sampling_check(&j->sampling, err));
    PROPANE_TRY(opened_model_read(&j->m, err));
    PROPANE_TRY(opened_model_tokenizer(&j->m, err));
    PROPANE_TRY(propane_chat_open(j->m.weights, j->m.tokenizer, j->chat_name, &j->chat, err));
    j->sampling.chat = j->chat;
    if (!(j->arena = arena_create())) return propane_fail_memory(err, 0);
    return opened_model_start(&j->m, err);
}

static void cmd_chat_release(chat_job *j) {
    propane_chat_free(j->chat);
    opened_model_close(&j->m);
    arena_free(j->arena);
    text_deinit(&j->answer);
}

int cmd_chat(int argc, char **argv) {
    chat_job j = {.m = {OPENED_MODEL_STANDARD}, .sampling = {.size = sizeof j.sampling}};
    propane_sampling_default(&j.sampling);
    j.sampling.count = 1024;
    j.sampling.temperature = 0.7;
    j.sampling.top_p = 0.9;
    int64_t top_k = 0, seed = 1;
    const cli_flag flags[] = {
        OPENED_MODEL_FLAG(j.m),
        OPENED_ADAPTER_FLAG(j.m),
        {"--system", CLI_TEXT, &j.system, .words = "TEXT", .help = "system message"},
        {"--chat", CLI_TEXT, &j.chat_name, .words = "FORMAT",
         .help = "chat format to use if the model folder has none"},
        OPENED_TOKENIZER_FLAG(j.m),
        {"--context", CLI_INT, &j.m.context, 0, 1048576, "N", "longest conversation in tokens; 0: the model's"},
        {"--count", CLI_INT, &j.sampling.count, 1, 1e9, "N", "maximum number of tokens per answer"},
        SAMPLING_FLAGS(j.sampling, top_k),
        {"--seed", CLI_INT, &seed, 0, 9e15, "N", "seed for sampling"},
        OPENED_WORK_FLAGS(j.m),
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "chat MODEL [flags]",
                         "Chats with a model. Each input line is a message, and the answer appears as it is generated. "
                         "Ctrl-C stops an answer, Ctrl-D exits, /help lists the commands. Input can come from a pipe.");
    if (code >= 0) return code;
    j.sampling.top_k = (int)top_k;
    j.sampling.seed = (uint64_t)seed;
    j.terminal = cli_is_terminal(STDIN_FILENO) && cli_is_terminal(STDOUT_FILENO);
    propane_error err = {0};
    propane_status status = propane_set_threads((int)j.m.threads, &err);
    if (status == PROPANE_OK) status = cmd_chat_open_model(&j, &err);
    if (status == PROPANE_OK) status = cmd_chat_talk(&j, &err);
    cmd_chat_release(&j);
    return status == PROPANE_OK ? CLI_OK : cli_error("chat", &err);
}
