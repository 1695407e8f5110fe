/* SPDX-License-Identifier: MIT
 * Owns devices and compiled programs. Several programs may share one compiled net. The self-test programs call these
 * functions directly, without the driver's table.
 */
#include <stdio.h>
#include <string.h>

#include "ane/driver/ane.h"
#include "ane/driver/ane_lab.h"
#include "ane/driver/remembered.h"
#include "core/base/memory.h"

enum { CANCELS_SINCE = 27 /* macOS */ };

/* Returns the system's limit on compiles per process, or 0 if no limit is known. Processes on macOS 27 compile more
 * than 119 programs (midasdf/ANEDVD, IchenDEV/utter, cortexkit/synapse). Up to macOS 26, the compiler fails without
 * giving a reason after about that many (C1). */
static int ane_device_budget(const ane_api *a) {
    ane_system_version v;
    return ane_system(a, &v) && v.major >= 27 ? 0 : ANE_BUDGET;
}

static void ane_device_settle(const ane_api *a, int route, ane_fact fact, int *keeping) {
    if (*keeping == ANE_DROP_IF_PROVED) *keeping = ane_remembered_yes(a, route, fact) ? ANE_DROP : ANE_KEEP;
}

static int device_pause_s = ANE_PAUSE_S;

void ane_pause_at_most(int seconds) { device_pause_s = seconds; }

propane_status ane_device_create(const ane_api *a, const ane_options *o, ane_device **out, propane_error *err) {
    *out = mem_alloc(sizeof **out);
    if (!*out) return propane_fail_memory(err, sizeof **out);
    **out = (ane_device){.api = a, .options = *o};
    /* The stand-in has no shared compiler service, so no pause is needed. */
    if (o->pause_s < 0) (*out)->options.pause_s = a->library ? 0 : device_pause_s;
    ane_device_settle(a, o->route, ANE_FACT_descriptor, &(*out)->options.descriptor);
    ane_device_settle(a, o->route, ANE_FACT_folder, &(*out)->options.folder);
    if (o->budget < 0) (*out)->options.budget = ane_device_budget(a);
    (*out)->equal_size = o->sizes == ANE_SIZES_EQUAL ||
                         (o->sizes == ANE_SIZES_ANY_IF_PROVED && !ane_remembered_yes(a, o->route, ANE_FACT_sizes));
    ane_system_version system;
    (*out)->cancels = ane_system(a, &system) && system.major >= CANCELS_SINCE;
    if (pthread_mutex_init(&(*out)->mutex, NULL) == 0) return PROPANE_OK;
    mem_free(*out);
    *out = NULL;
    return propane_fail(err, PROPANE_ERR_DEVICE, "the system cannot create a lock");
}

void ane_device_free(ane_device *d) {
    if (!d) return;
    ane_way_end(d);
    ane_events_close(d);
    pthread_mutex_destroy(&d->mutex);
    mem_free(d);
}

/* Finds the donor, whose compiled net is reused, if the options name one. The donor's text must be the same; only its
 * weights may differ. */
static propane_status ane_device_find_donor(const ane_device *d, const propane_compile_options *options,
                                            const ane_source *s, const ane_model **out, propane_error *err) {
    if (!options->donor) return PROPANE_OK;
    const driver_program *program = driver_program_of(options->donor, d->driver);
    const ane_program *donor = program ? program->impl : NULL;
    if (!donor || donor->unit->text.length != s->program.length ||
        memcmp(donor->unit->text.data, s->program.data, s->program.length) != 0)
        return propane_fail(err, PROPANE_ERR_INVALID,
                            "ane: the program is not the donor program with other weights, because its text differs");
    *out = &donor->unit->model;
    return PROPANE_OK;
}

static propane_status ane_device_make_programs(const ane_device *d, const mil_function *const *f, int count,
                                               const propane_compile_options *options, ane_source *s, ane_unit *u,
                                               driver_program *const *out, propane_error *err) {
    const ane_model *donor = NULL;
    char name[80];
    snprintf(name, sizeof name, count > 1 ? "%.40s and %d others" : "%.60s", f[0]->name, count - 1);
    PROPANE_TRY(ane_source_create(f, count, &d->options, s, err));
    PROPANE_TRY(ane_device_find_donor(d, options, s, &donor, err));
    PROPANE_TRY(ane_model_create(d->api, &d->options, s, donor, name, &u->model, err));
    for (int k = 0; k < count; k++) {
        ane_program *p = ARENA_NEW(out[k]->arena, ane_program);
        if (!p) return propane_fail_memory(err, sizeof *p);
        PROPANE_TRY(driver_dense_io(out[k], f[k], err));
        PROPANE_TRY(ane_layout(d->api, u->model.attributes, s, k, out[k], &p->order, err));
        p->unit = u;
        out[k]->impl = p;
    }
    if (!options->reloadable) ane_model_trim(d->api, &d->options, &u->model);
    u->text = s->program;
    s->program = (text){0};
    atomic_init(&u->users, count);
    return PROPANE_OK;
}

propane_status ane_compile_together(ane_device *d, const mil_function *const *f, int count,
                                    const propane_compile_options *options, driver_program *const *out,
                                    propane_error *err) {
    ane_source source = {0};
    ane_unit *u = mem_alloc(sizeof *u);
    if (!u) return propane_fail_memory(err, sizeof *u);
    propane_status status = ane_device_make_programs(d, f, count, options, &source, u, out, err);
    ane_source_deinit(&source);
    if (status == PROPANE_OK) return PROPANE_OK;
    for (int k = 0; k < count; k++) out[k]->impl = NULL;
    ane_model_deinit(d->api, &d->options, &u->model);
    mem_free(u);
    return status;
}

propane_status ane_compile(void *impl, const mil_function *f, const propane_compile_options *options,
                           driver_program *out, propane_error *err) {
    return ane_compile_together(impl, &f, 1, options, &out, err);
}

static _Atomic(ane_unit *) lost_units; /* kept for the rest of the process */

void ane_program_free(void *impl, driver_program *program) {
    const ane_device *d = impl;
    ane_unit *u = ((ane_program *)program->impl)->unit;
    program->impl = NULL;
    if (atomic_fetch_sub(&u->users, 1) != 1) return;
    if (u->lost) {
        ane_model_abandon(&u->model);
        u->next_lost = atomic_load(&lost_units);
        while (!atomic_compare_exchange_weak(&lost_units, &u->next_lost, u)) {
        }
        return;
    }
    ane_model_deinit(d->api, &d->options, &u->model);
    text_deinit(&u->text);
    mem_free(u);
}
