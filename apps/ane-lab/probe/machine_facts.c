/* SPDX-License-Identifier: MIT
 * Collects the facts about machine and process that are needed to interpret an engine's answer: model, chip, system and
 * build, virtual machine, power; temporary folders, terminal, remote login, launchd.
 */
#include "apps/ane-lab/probe/machine_facts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#ifdef __APPLE__
#include <sys/sysctl.h>
#endif

#include "apps/ane-lab/probe/probe_json.h"
#include "core/base/memory.h"
#include "core/base/power_source.h"
#include "core/base/text.h"

propane_status machine_check(bool is_ane, propane_error *err) {
#ifndef __APPLE__
    const char *library = getenv("PROPANE_ANE_LIBRARY");
    if (is_ane && !(library && *library))
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED,
                            "ane: the Apple Neural Engine is available only on macOS; 'sim:m4' simulates one");
#endif
    (void)is_ane, (void)err;
    return PROPANE_OK;
}

#ifdef __APPLE__
static void machine_put_text(json_t *out, const char *key, const char *name) {
    char value[200];
    size_t length = sizeof value - 1;
    if (sysctlbyname(name, value, &length, NULL, 0) != 0) return;
    value[length] = 0;
    json_put(out, key, json_words(value));
}

static void machine_put_number(json_t *out, const char *key, const char *name) {
    int64_t value = 0;
    size_t length = sizeof value;
    if (sysctlbyname(name, &value, &length, NULL, 0) == 0) json_put(out, key, json_integer(value));
}
#endif

static void machine_put_variable(json_t *out, const char *key, const char *name) {
    const char *value = getenv(name);
    json_put(out, key, value ? json_words(value) : json_null());
}

static void machine_put_temporary(json_t *out) {
    machine_put_variable(out, "TMPDIR", "TMPDIR");
#ifdef _CS_DARWIN_USER_TEMP_DIR
    char folder[1200];
    const size_t length = confstr(_CS_DARWIN_USER_TEMP_DIR, folder, sizeof folder);
    json_put(out, "user_temporary", length && length <= sizeof folder ? json_words(folder) : json_null());
#endif
}

void machine_describe(json_t *report) {
    struct utsname system;
    json_t *machine = json_object(), *started = json_object();
    if (uname(&system) == 0) probe_say(report, "system", "%s %s %s", system.sysname, system.release, system.machine);
#ifdef __APPLE__
    machine_put_text(machine, "model", "hw.model");
    machine_put_text(machine, "chip", "machdep.cpu.brand_string");
    machine_put_text(machine, "version", "kern.osproductversion");
    machine_put_text(machine, "build", "kern.osversion");
    machine_put_number(machine, "virtual_machine", "kern.hv_vmm_present");
    machine_put_number(machine, "memory_bytes", "hw.memsize");
    machine_put_number(machine, "translated", "sysctl.proc_translated");
#endif
    json_put(machine, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_put(machine, "battery", json_boolean(power_source_is_battery()));
    machine_put_temporary(started);
    json_put(started, "terminal", json_boolean(isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)));
    json_put(started, "remote", json_boolean(getenv("SSH_CONNECTION") != NULL));
    json_put(started, "by_launchd", json_boolean(getppid() == 1));
    machine_put_variable(started, "terminal_program", "TERM_PROGRAM");
    machine_put_variable(started, "service", "XPC_SERVICE_NAME");
    json_put(report, "machine", machine);
    json_put(report, "started", started);
}

/* ---- privacy ----------------------------------------------------------------------------------------------------- */

typedef struct machine_secret {
    const char *find, *show;
} machine_secret;

static json_t *machine_hide_in(const char *words, const machine_secret *secrets, int count) {
    text t = {0};
    for (const char *at = words; *at;) {
        int k = 0;
        while (k < count && strncmp(at, secrets[k].find, strlen(secrets[k].find)) != 0) k++;
        if (k < count) {
            text_append(&t, secrets[k].show);
            at += strlen(secrets[k].find);
        } else {
            text_append_n(&t, at++, 1);
        }
    }
    json_t *hidden = t.failed ? NULL : json_words(t.data ? t.data : "");
    text_deinit(&t);
    return hidden;
}

static json_t *machine_hide(const json_t *from, const machine_secret *secrets, int count) {
    const char *key;
    json_t *value, *copy;
    size_t index;
    if (json_is_string(from)) return machine_hide_in(json_string_value(from), secrets, count);
    if (json_is_array(from)) {
        copy = json_array();
        json_array_foreach((json_t *)(uintptr_t)from, index, value) json_add(copy, machine_hide(value, secrets, count));
        return copy;
    }
    if (!json_is_object(from)) return json_copy((json_t *)(uintptr_t)from);
    copy = json_object();
    json_object_foreach((json_t *)(uintptr_t)from, key, value) json_put(copy, key, machine_hide(value, secrets, count));
    return copy;
}

propane_status machine_hide_home(const json_t *from, json_t **out, propane_error *err) {
    const char *home = getenv("HOME");
    machine_secret secrets[1];
    int count = 0;
    if (home && strlen(home) > 1) secrets[count++] = (machine_secret){home, "~"};
    *out = machine_hide(from, secrets, count);
    return *out ? PROPANE_OK : propane_fail_memory(err, 0);
}
