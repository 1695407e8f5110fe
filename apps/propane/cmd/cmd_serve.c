/* SPDX-License-Identifier: MIT
 * propane serve: serves a model over HTTP with OpenAI's endpoints.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "apps/propane/cli.h"
#include "apps/propane/cmd/model_flags.h"
#include "apps/serve/server.h"
#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"

typedef struct serve_job {
    opened_model m;
    const char *chat_name, *name, *origins, *key_file, *certificate, *private_key;
    serve_options options;
    propane_chat *chat; /* NULL if the model's chat format is unknown: completions only */
    bool log;
    char *certificate_text, *key_text; /* used to start the server */
    arena *arena;                      /* holds keys and origins */
} serve_job;

/* ---- permissions --------------------------------------------------------------------------------------------------------------- */

/* Splits a text at the characters in `ends`, and trims blanks and final slashes of each part. Skips empty parts and
 * comments (#). Changes the text. */
static propane_status cmd_serve_split(arena *a, char *whole, const char *ends, const char *const **out, int *count,
                                      propane_error *err) {
    size_t room = 1;
    for (const char *p = whole; *p; p++) room += strchr(ends, *p) != NULL;
    const char **parts = ARENA_ARRAY(a, room, const char *);
    if (!parts) return propane_fail_memory(err, room * sizeof *parts);
    for (char *rest = NULL, *part = strtok_r(whole, ends, &rest); part; part = strtok_r(NULL, ends, &rest)) {
        part += strspn(part, " \t\r");
        size_t n = strlen(part);
        while (n && strchr(" \t\r/", part[n - 1])) part[--n] = 0;
        if (n && *part != '#') parts[(*count)++] = part;
    }
    *out = parts;
    return PROPANE_OK;
}

static propane_status cmd_serve_read_keys(serve_job *j, access_keys *out, propane_error *err) {
    char *data = NULL;
    size_t length = 0;
    if (!j->key_file) return PROPANE_OK;
    PROPANE_TRY(file_read_stream(j->key_file, 1 << 20, &data, &length, err));
    char *own = memchr(data, 0, length) ? NULL : arena_string(j->arena, data);
    const bool binary = !own && memchr(data, 0, length);
    mem_free(data);
    if (binary)
        return propane_fail(err, PROPANE_ERR_INVALID, "%s: not a text file; give one key per line", j->key_file);
    if (!own) return propane_fail_memory(err, length);
    PROPANE_TRY(cmd_serve_split(j->arena, own, "\n", &out->keys, &out->count, err));
    if (out->count) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: it contains no keys; give one key per line", j->key_file);
}

static volatile sig_atomic_t cmd_serve_hung_up;

static void cmd_serve_on_hangup(int number) {
    (void)number;
    cmd_serve_hung_up = 1;
}

/* Installs the handler for SIGHUP if keys or certificates come from files, which are then read again after the
 * signal. */
static void cmd_serve_catch_hangup(const serve_job *j) {
    struct sigaction action = {.sa_handler = cmd_serve_on_hangup};
    sigemptyset(&action.sa_mask);
    if (j->key_file || j->certificate) sigaction(SIGHUP, &action, NULL);
}

/* Reloads the keys. The old keys stay in the arena, because responses may still be using them. */
static void cmd_serve_reload_keys(serve_job *j, serve_server *server) {
    propane_error err = {0};
    access_keys *keys = ARENA_ARRAY(j->arena, 1, access_keys);
    const propane_status status = keys ? cmd_serve_read_keys(j, keys, &err) : propane_fail_memory(&err, sizeof *keys);
    if (status != PROPANE_OK) {
        fprintf(stderr, "propane serve: the keys were not replaced: %s\n", err.text);
        return;
    }
    serve_set_keys(server, keys);
    fprintf(stderr, "propane serve: read %d key%s\n", keys->count, text_plural(keys->count));
}

static void cmd_serve_forget(char **secret) {
    if (*secret) memset(*secret, 0, strlen(*secret));
    mem_free(*secret);
    *secret = NULL;
}

/* Reads a certificate or a key as text; free it with mem_free. Sets *out to NULL if `path` is NULL. */
static propane_status cmd_serve_read_pem(const char *path, char **out, propane_error *err) {
    size_t length = 0;
    *out = NULL;
    if (!path) return PROPANE_OK;
    PROPANE_TRY(file_read_stream(path, 1 << 20, out, &length, err));
    if (!memchr(*out, 0, length) && strstr(*out, "-----BEGIN ")) return PROPANE_OK;
    cmd_serve_forget(out);
    return propane_fail(err, PROPANE_ERR_INVALID, "%s: not in PEM format; to convert it: openssl x509 -in FILE", path);
}

static void cmd_serve_reload_certificate(const serve_job *j, serve_server *server) {
    propane_error err = {0};
    char *certificate = NULL, *key = NULL;
    propane_status status = cmd_serve_read_pem(j->certificate, &certificate, &err);
    if (!status) status = cmd_serve_read_pem(j->private_key, &key, &err);
    if (!status) status = serve_set_certificate(server, certificate, key, &err);
    cmd_serve_forget(&certificate);
    cmd_serve_forget(&key);
    fprintf(stderr, "propane serve: the certificate %s%s\n", status ? "was not replaced: " : "was read again",
            status ? err.text : "");
}

/* Reloads keys and certificates. If a file cannot be used, the old keys or certificate stay. */
static void cmd_serve_reload(serve_job *j, serve_server *server) {
    cmd_serve_hung_up = 0;
    if (j->key_file) cmd_serve_reload_keys(j, server);
    if (j->certificate) cmd_serve_reload_certificate(j, server);
}

static propane_status cmd_serve_read_rules(serve_job *j, propane_error *err) {
    access_rules *rules = &j->options.access;
    j->arena = arena_create();
    if (!j->arena) return propane_fail_memory(err, 0);
    access_keys keys = {0};
    PROPANE_TRY(cmd_serve_read_keys(j, &keys, err));
    rules->keys = keys.keys, rules->key_count = keys.count;
    PROPANE_TRY(cmd_serve_read_pem(j->certificate, &j->certificate_text, err));
    PROPANE_TRY(cmd_serve_read_pem(j->private_key, &j->key_text, err));
    j->options.tls_certificate = j->certificate_text, j->options.tls_key = j->key_text;
    if (!j->origins) return PROPANE_OK;
    char *own = arena_string(j->arena, j->origins);
    if (!own) return propane_fail_memory(err, strlen(j->origins));
    PROPANE_TRY(cmd_serve_split(j->arena, own, ",", &rules->origins, &rules->origin_count, err));
    for (int i = 0; i < rules->origin_count; i++) {
        const char *o = rules->origins[i], *host = strstr(o, "://");
        if (strcmp(o, "*") != 0 && (!host || !host[3] || strchr(host + 3, '/')))
            return propane_fail(err, PROPANE_ERR_INVALID,
                                "--cors-origins: '%.100s' is not an origin; give origins such as "
                                "https://app.example.org, separated by commas, or *",
                                o);
    }
    return PROPANE_OK;
}

/* Returns whether standard output accepts a line without waiting. A full pipe or a stopped terminal must not block
 * requests. */
static bool cmd_serve_can_write(void) {
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) > 0;
}

/* Writes a log line. Called in the HTTP library's threads, one call at a time. */
static void cmd_serve_log(void *context, const char *line) {
    static unsigned long lost;
    (void)context;
    char shown[800];
    if (!cmd_serve_can_write()) {
        lost++;
        return;
    }
    text_harmless(shown, sizeof shown, line, strlen(line), "");
    if (lost) printf("%lu lines were not written, because no process read them\n", lost);
    lost = 0;
    printf("%s\n", shown);
    fflush(stdout);
}

/* ---- the model ------------------------------------------------------------------------------------------------------------------ */

/* Returns the last part of a path, for example "llama" for "models/llama/". */
static const char *cmd_serve_last_part(const char *path, char out[200]) {
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    snprintf(out, 200, "%.*s", (int)(end - begin < 199 ? end - begin : 199), path + begin);
    return out;
}

/* Opens the chat format. If the model's template is unknown, the server offers completions only. */
static propane_status cmd_serve_open_chat(serve_job *j, propane_error *err) {
    const propane_status status = propane_chat_open(j->m.weights, j->m.tokenizer, j->chat_name, &j->chat, err);
    if (status != PROPANE_ERR_UNSUPPORTED || j->chat_name) return status;
    fprintf(stderr, "propane serve: completions only, no chat: %s\n", err->text);
    j->chat = NULL;
    return PROPANE_OK;
}

static propane_status cmd_serve_open_model(serve_job *j, propane_error *err) {
    PROPANE_TRY(opened_model_read(&j->m, err));
    PROPANE_TRY(opened_model_tokenizer(&j->m, err));
    PROPANE_TRY(cmd_serve_open_chat(j, err));
    return opened_model_start(&j->m, err);
}

static propane_status cmd_serve_serve(serve_job *j, propane_error *err) {
    char name[200];
    serve_server *server;
    PROPANE_TRY(cmd_serve_read_rules(j, err));
    PROPANE_TRY(cmd_serve_open_model(j, err));
    j->options.version = propane_version();
    if (j->log) j->options.log = cmd_serve_log;
    serve_engine engine = serve_engine_of(j->m.generator, j->chat);
    engine.name = j->name ? j->name : cmd_serve_last_part(j->m.model, name);
    engine.created = (int64_t)time(NULL);
    engine.next_seed = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    cli_catch_signals();
    cmd_serve_catch_hangup(j);
    PROPANE_TRY(serve_start(&engine, &j->options, &server, err));
    cmd_serve_forget(&j->key_text);
    printf("serving '%s' at http%s://%s%s%s:%d/v1 (chat format %s, weights in %s); Ctrl-C ends it\n", engine.name,
           j->certificate ? "s" : "", strchr(j->options.host, ':') ? "[" : "", j->options.host,
           strchr(j->options.host, ':') ? "]" : "", serve_port(server),
           j->chat ? propane_chat_format(j->chat) : "unknown: completions only",
           propane_generator_weights(j->m.generator));
    (void)cli_flush();
    while (!cli_interrupted) {
        usleep(20000);
        if (cmd_serve_hung_up) cmd_serve_reload(j, server);
    }
    serve_stop(server, 5000);
    if (cmd_serve_can_write()) printf("stopped\n");
    return PROPANE_OK;
}

/* Returns -1 if the command line is correct, otherwise the exit code after a message. */
static int cmd_serve_check(const serve_job *j, int64_t body, int64_t memory) {
    if (!j->certificate != !j->private_key)
        return cli_misuse("serve", "--tls-cert and --tls-key must be given together; %s is missing",
                          j->certificate ? "--tls-key" : "--tls-cert");
    if (body > memory)
        return cli_misuse("serve",
                          "a request of --max-body %" PRId64 " MB would not fit into --max-memory %" PRId64 " MB", body,
                          memory);
    return -1;
}

int cmd_serve(int argc, char **argv) {
    serve_job j = {
        .m = {OPENED_MODEL_STANDARD, .parallel = 8, .chunk = 256}, .options = {.host = "127.0.0.1"}, .log = true};
    int64_t port = 8080, body = 4, queue = 512, connections = 1024, memory = 256, seconds = 60;
    const cli_flag flags[] = {
        OPENED_MODEL_FLAG(j.m),
        OPENED_ADAPTER_FLAG(j.m),
        {"--host", CLI_TEXT, &j.options.host, .words = "ADDRESS",
         .help = "address to listen on; 0.0.0.0: reachable from other machines"},
        {"--port", CLI_INT, &port, 0, 65535, "N", "port; 0: any free port"},
        {"--name", CLI_TEXT, &j.name, .words = "NAME", .help = "model name for clients; default: the file name"},
        {"--chat", CLI_TEXT, &j.chat_name, .words = "FORMAT",
         .help = "chat format to use if the model folder has none"},
        OPENED_TOKENIZER_FLAG(j.m),
        {"--context", CLI_INT, &j.m.context, 0, 1048576, "N", "longest sequence in tokens; 0: the model's"},
        OPENED_WORK_FLAGS(j.m),
        {"--parallel", CLI_INT, &j.m.parallel, 1, PROPANE_MAX_PARALLEL, "N", "requests to answer in parallel"},
        {"--chunk", CLI_INT, &j.m.chunk, 1, 4096, "N", "prompt tokens to process before other requests get a turn"},
        {"--max-body", CLI_INT, &body, 1, 1024, "MB", "largest request"},
        {"--max-queue", CLI_INT, &queue, 1, 100000, "N",
         "maximum number of waiting requests; further ones are refused"},
        {"--max-connections", CLI_INT, &connections, 1, 100000, "N", "maximum number of open connections"},
        {"--max-memory", CLI_INT, &memory, 1, 1 << 20, "MB", "memory for all incoming and waiting requests"},
        {"--request-time", CLI_INT, &seconds, 1, 86400, "S", "seconds within which a whole request must arrive"},
        {"--api-key-file", CLI_TEXT, &j.key_file, .words = "FILE",
         .help = "file of client keys, one per line, read again on SIGHUP; a request without a key gets 401 (except / "
                 "and /health)"},
        {"--tls-cert", CLI_TEXT, &j.certificate, .words = "FILE",
         .help = "certificate (chain) for HTTPS, PEM; read again on SIGHUP, as is its key"},
        {"--tls-key", CLI_TEXT, &j.private_key, .words = "FILE", .help = "private key of the certificate, PEM"},
        {"--cors-origins", CLI_TEXT, &j.origins, .words = "LIST",
         .help = "origins of other machines whose pages may send requests: https://app.example.org,...; *: all"},
        {"--log", CLI_SWITCH, &j.log, .help = "log one line per request"},
    };
    int code = cli_parse(argc, argv, flags, sizeof flags / sizeof flags[0], "serve MODEL [flags]",
                         "Serves a model to clients of OpenAI's completions and chat endpoints. Concurrent requests "
                         "share a batch. http://HOST:PORT/ is a chat page. Ctrl-C or SIGTERM ends the server.");
    if (code >= 0) return code;
    if ((code = cmd_serve_check(&j, body, memory)) >= 0) return code;
    j.options.port = (int)port;
    j.options.body_limit = (size_t)body << 20;
    j.options.queue_limit = (int)queue;
    j.options.connection_limit = (int)connections;
    j.options.memory_limit = (size_t)memory << 20;
    j.options.request_seconds = (int)seconds;
    propane_error err = {0};
    propane_status status = propane_set_threads((int)j.m.threads, &err);
    if (status == PROPANE_OK) status = cmd_serve_serve(&j, &err);
    cmd_serve_forget(&j.certificate_text);
    cmd_serve_forget(&j.key_text);
    propane_chat_free(j.chat);
    arena_free(j.arena);
    opened_model_close(&j.m);
    return status == PROPANE_OK ? CLI_OK : cli_error("serve", &err);
}
