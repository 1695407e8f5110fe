/* SPDX-License-Identifier: MIT
 * Owns _ANEClient, its ways to evaluate besides the standard one, and _ANEDeviceInfo.
 */
#include <signal.h>
#include <string.h>

#include "standin/engine.h"

/* ---- _ANEClient ---------------------------------------------------------------------------------------------------------------------- */

/* Client code calls methods that _ANEInMemoryModel does not have
 * (Epistates/pmetal/crates/pmetal-metal/src/ane/runtime.rs). */
static model *client_model(object *o) {
    if (standin_is_class(o, "_ANEInMemoryModel") && standin_switch("wrapper"))
        standin_raise("NSInvalidArgumentException",
                      "-[_ANEInMemoryModel getUUID]: unrecognized selector sent to instance %p", (void *)o);
    return standin_model_of(o);
}

static object *client_shared(object *self, const char *selector) {
    static object *shared;
    if (standin_is("client", "nil")) return NULL;
    if (!shared) {
        shared = standin_new("_ANEClient", KIND_OTHER, NULL, 0);
        standin_count("objects", -1); /* not counted, because it lives as long as the process */
    }
    return shared;
}

static bool client_compile(object *self, const char *selector, object *o, object *options, uint32_t qos,
                           object **error) {
    const object *type = standin_entry(options, "kANEFModelType"),
                 *file = standin_entry(options, "kANEFNetPlistFilenameKey");
    if (!type || strcmp(standin_text(type), "kANEFModelMIL") != 0 || !file ||
        strcmp(standin_text(file), "model.mil") != 0)
        return standin_fail(error, FAIL_TEXT, selector, "_ANECompiler : ANECCompile() FAILED err=()");
    return standin_compile(client_model(o), selector, error);
}
static bool client_load(object *self, const char *selector, object *o, object *options, uint32_t qos, object **error) {
    return standin_check(options, KIND_DICTIONARY, "options:") && standin_load(client_model(o), selector, error);
}
static bool client_unload(object *self, const char *selector, object *o, object *options, uint32_t qos,
                          object **error) {
    return standin_unload(client_model(o), error);
}
static bool client_evaluate(object *self, const char *selector, object *o, object *options, object *r, uint32_t qos,
                            object **error) {
    standin_wait_for("standard_ns");
    return standin_check(options, KIND_DICTIONARY, "options:") && standin_evaluate(client_model(o), r, selector, error);
}
static bool client_direct(object *self, const char *selector, object *o, object *options, object *r, uint32_t qos,
                          object **error) {
    if (standin_is("direct", "fail"))
        return standin_fail(error, FAIL_WAY, selector, "direct evaluation is not allowed");
    standin_wait_for("direct_ns");
    if (standin_is("direct", "wrong")) return true;
    return standin_evaluate(client_model(o), r, selector, error);
}
static int tasks;

static bool client_begin_task(object *self, const char *selector) {
    if (standin_is("realtime", "fail") || standin_is("realtime", "task") || standin_is("realtime", "none") ||
        standin_is("realtime", "untasked"))
        return false;
    __atomic_add_fetch(&tasks, 1, __ATOMIC_SEQ_CST);
    standin_count("tasks", 1);
    return true;
}
static bool client_end_task(object *self, const char *selector) {
    if (__atomic_sub_fetch(&tasks, 1, __ATOMIC_SEQ_CST) < 0) standin_violation("endRealTimeTask without a beginning");
    standin_count("tasks", -1);
    return true;
}
/* On macOS 27 it answers NO without an error (PM). */
static bool client_load_real_time(object *self, const char *selector, object *o, object *options, uint32_t qos,
                                  object **error) {
    if (standin_is("realtime", "none")) return false;
    return standin_load(client_model(o), selector, error);
}
static bool client_real_time(object *self, const char *selector, object *o, object *options, object *r,
                             object **error) {
    if (standin_is("realtime", "none")) return false;
    if (standin_is("realtime", "fail"))
        return standin_fail(error, FAIL_WAY, selector, "real-time evaluation is not allowed");
    if (standin_is("realtime", "crash")) raise(SIGSEGV);
    standin_wait_for("realtime_ns");
    if (standin_is("realtime", "wrong")) return true;
    if (!tasks && !standin_is("realtime", "untasked"))
        return standin_fail(error, FAIL_WAY, selector, "no real-time task is begun");
    return standin_evaluate(client_model(o), r, selector, error);
}
static void client_purge(object *self, const char *selector, object *o) { standin_purge(client_model(o)); }
static bool client_exists(object *self, const char *selector, object *o) { return standin_cached(client_model(o)); }

/* No known report got further than this. */
static bool client_chain(object *self, const char *selector, object *o, object *options, object *chain, uint32_t qos,
                         object **error) {
    return standin_fail(error, FAIL_CHAIN, selector, "");
}

/* ---- _ANEDeviceInfo ------------------------------------------------------------------------------------------------------------------ */

static bool has_engine(object *self, const char *selector) { return !standin_is("engine", "no"); }
static object *architecture(object *self, const char *selector) { return standin_autorelease(standin_string("h16g")); }
static uint32_t cores(object *self, const char *selector) { return 16; }
static object *build(object *self, const char *selector) {
    return standin_autorelease(standin_string(standin_switch("build")));
}

#define CODE(function) ((void (*)(void))(function))

const method standin_client_methods[] = {
    {"_ANEDeviceInfo", '+', "hasANE", "B16@0:8", CODE(has_engine)},
    {"_ANEDeviceInfo", '+', "aneArchitectureType", "@16@0:8", CODE(architecture)},
    {"_ANEDeviceInfo", '+', "numANECores", "I16@0:8", CODE(cores)},
    {"_ANEDeviceInfo", '+', "buildVersion", "@16@0:8", CODE(build)},
    {"_ANEClient", '+', "sharedConnection", "@16@0:8", CODE(client_shared)},
    {"_ANEClient", '-', "compileModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_compile)},
    {"_ANEClient", '-', "loadModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_load)},
    {"_ANEClient", '-', "loadRealTimeModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_load_real_time)},
    {"_ANEClient", '-', "unloadModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_unload)},
    {"_ANEClient", '-', "unloadRealTimeModel:options:qos:error:", "B44@0:8@16@24I32^@36", CODE(client_unload)},
    {"_ANEClient", '-', "evaluateWithModel:options:request:qos:error:", "B52@0:8@16@24@32I40^@44",
     CODE(client_evaluate)},
    {"_ANEClient", '-', "doEvaluateDirectWithModel:options:request:qos:error:", "B52@0:8@16@24@32I40^@44",
     CODE(client_direct)},
    {"_ANEClient", '-', "evaluateRealTimeWithModel:options:request:error:", "B48@0:8@16@24@32^@40",
     CODE(client_real_time)},
    {"_ANEClient", '-', "beginRealTimeTask", "B16@0:8", CODE(client_begin_task)},
    {"_ANEClient", '-', "endRealTimeTask", "B16@0:8", CODE(client_end_task)},
    {"_ANEClient", '-', "compiledModelExistsFor:", "B24@0:8@16", CODE(client_exists)},
    {"_ANEClient", '-', "purgeCompiledModel:", "v24@0:8@16", CODE(client_purge)},
    {"_ANEClient", '-', "prepareChainingWithModel:options:chainingReq:qos:error:", "B52@0:8@16@24@32I40^@44",
     CODE(client_chain)},
    {NULL, 0, NULL, NULL, NULL},
};
