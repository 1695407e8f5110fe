/* SPDX-License-Identifier: MIT
 * propane serve: a model behind OpenAI's endpoints, for programs that speak to those.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cmd/model_flags.h"
#include "serve/server.h"

typedef struct serve_job {
    opened_model m;
    const char *chat_name, *name;
    serve_options options;
    propane_chat *chat;
} serve_job;

/* "models/llama/" is called "llama". */
static const char *cmd_serve_last_part(const char *path, char out[200]) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(out, 200, "%.*s", (int)(end - begin < 199 ? end - begin : 199), path + begin);
    return out;
}

static propane_status cmd_serve_open_model(serve_job *j, propane_error *err) {
    PROPANE_TRY(opened_model_read(&j->m, err));
    PROPANE_TRY(opened_model_tokenizer(&j->m, err));
    PROPANE_TRY(propane_chat_open(j->m.weights, j->m.tokenizer, j->chat_name, &j->chat, err));
    return opened_model_start(&j->m, err);
}

static propane_status cmd_serve_serve(serve_job *j, propane_error *err) {
    char name[200];
    serve_server *server;
    PROPANE_TRY(cmd_serve_open_model(j, err));
    serve_engine engine = serve_engine_of(j->m.generator, j->chat);
    engine.name = j->name ? j->name : cmd_serve_last_part(j->m.model, name);
    engine.created = (int64_t)time(NULL);
    engine.next_seed = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    cli_catch_signals();
    PROPANE_TRY(serve_start(&engine, &j->options, &server, err));
    printf("serving '%s' at http://%s%s%s:%d/v1 (chat format %s); Ctrl-C ends it\n", engine.name,
           strchr(j->options.host, ':') ? "[" : "", j->options.host, strchr(j->options.host, ':') ? "]" : "",
           serve_port(server), propane_chat_format(j->chat));
    (void)cli_flush();
    while (!cli_interrupted) usleep(20000);
    serve_stop(server, 5000);
    printf("stopped\n");
    return PROPANE_OK;
}

int cmd_serve(int argc, char **argv) {
    serve_job j = {.m = {OPENED_MODEL_STANDARD, .parallel = 8, .chunk = 256}, .options = {.host = "127.0.0.1"}};
    int64_t port = 8080, body = 4, queue = 512, connections = 1024, memory = 256, seconds = 60;
    const cli_flag flags[] = {
        OPENED_MODEL_FLAG(j.m),
        OPENED_ADAPTER_FLAG(j.m),
        {"--host", CLI_TEXT, &j.options.host, .words = "ADDRESS", .help = "0.0.0.0: reachable from other machines"},
        {"--port", CLI_INT, &port, 0, 65535, "N", "0: any free one"},
        {"--name", CLI_TEXT, &j.name, .words = "NAME", .help = "what clients call the model; else the file's name"},
        {"--chat", CLI_TEXT, &j.chat_name, .words = "FORMAT",
         .help = "how the model talks, if its folder does not say"},
        OPENED_TOKENIZER_FLAG(j.m),
        {"--context", CLI_INT, &j.m.context, 0, 1048576, "N", "longest sequence; 0: the model's"},
        OPENED_WORK_FLAGS(j.m),
        {"--parallel", CLI_INT, &j.m.parallel, 1, PROPANE_MAX_PARALLEL, "N", "requests answered at the same time"},
        {"--chunk", CLI_INT, &j.m.chunk, 1, 4096, "N", "positions that a prompt is read by; others go on in between"},
        {"--max-body", CLI_INT, &body, 1, 1024, "MB", "largest request"},
        {"--max-queue", CLI_INT, &queue, 1, 100000, "N", "requests that may wait; more are told to come again"},
        {"--max-connections", CLI_INT, &connections, 1, 100000, "N", "at the same time"},
        {"--max-memory", CLI_INT, &memory, 1, 1 << 20, "MB", "of requests that arrive or wait, all together"},
        {"--request-time", CLI_INT, &seconds, 1, 86400, "S", "in which a whole request must have arrived"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "serve MODEL [flags]",
                         "Answers programs that speak OpenAI's completions and chat endpoints. Requests that come "
                         "together are answered together; Ctrl-C or SIGTERM ends it.");
    if (code >= 0) return code;
    j.options.port = (int)port;
    j.options.body_limit = (size_t)body << 20;
    j.options.queue_limit = (int)queue;
    j.options.connection_limit = (int)connections;
    j.options.memory_limit = (size_t)memory << 20;
    j.options.request_seconds = (int)seconds;
    propane_error err = {0};
    propane_status status = propane_set_threads((int)j.m.threads, &err);
    if (status == PROPANE_OK) status = cmd_serve_serve(&j, &err);
    propane_chat_free(j.chat);
    opened_model_close(&j.m);
    return status == PROPANE_OK ? CLI_OK : cli_error("serve", &err);
}
