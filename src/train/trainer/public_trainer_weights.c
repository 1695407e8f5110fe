/* SPDX-License-Identifier: MIT
 * Owns a caller's access to a trainer's trained tensors. The caller can read or replace them, for example to average
 * them over several machines. All given tensors are checked before the first one is changed. Numbers that are not
 * finite are refused.
 */
#include <math.h>
#include <string.h>

#include "core/run/public.h"
#include "train/trainer/public_trainer.h"

static propane_status api_weights_usable(const propane_trainer *t, propane_error *err) {
    if (!train_run_options(t->run)->compact_vocab) return PROPANE_OK;
    return propane_fail(
        err, PROPANE_ERR_UNSUPPORTED,
        "with compact-vocab, the rows of the embedding mean different ids in each run; train with all ids");
}

bool propane_trainer_tensor(const propane_trainer *t, int index, propane_trained_tensor *out) {
    if (!t || !out) return false;
    train_trained l;
    if (!train_run_trained(t->run, index, &l)) return false;
    propane_trained_tensor mine = {.size = sizeof mine, .name = l.name, .rank = l.rank, .count = l.count};
    for (int d = 0; d < l.rank; d++) mine.dim[d] = l.dim[d];
    return api_give(out, &mine, sizeof mine);
}

propane_status propane_trainer_get(const propane_trainer *t, int index, float *values, int64_t count,
                                   propane_error *err) {
    NEED_AS(err, "trainer", t);
    NEED_LIST(err, values, count);
    API_ERROR(err);
    train_trained l;
    PROPANE_TRY(api_weights_usable(t, err));
    if (!train_run_trained(t->run, index, &l))
        return propane_fail(err, PROPANE_ERR_NOT_FOUND, "there is no trained tensor with index %d", index);
    if (count != l.count)
        return propane_fail(err, PROPANE_ERR_INVALID, "%.200s has %lld elements, not %lld", l.name, (long long)l.count,
                            (long long)count);
    memcpy(values, l.data, (size_t)count * sizeof *values);
    return PROPANE_OK;
}

/* ---- replacing ----------------------------------------------------------------------------------------------------------------- */

static propane_status api_weights_find(const propane_trainer *t, const char *name, train_trained *out,
                                       propane_error *err) {
    for (int i = 0; train_run_trained(t->run, i, out); i++)
        if (strcmp(out->name, name) == 0) return PROPANE_OK;
    return propane_fail(err, PROPANE_ERR_NOT_FOUND, "this run trains no tensor '%.200s'", name);
}

static propane_status api_weights_check_shape(const propane_tensor *given, const train_trained *own,
                                              propane_error *err) {
    bool same = given->rank == own->rank;
    for (int d = 0; same && d < own->rank; d++) same = given->dim[d] == own->dim[d];
    if (given->dtype != PROPANE_FP32)
        return propane_fail(err, PROPANE_ERR_INVALID, "%.200s: values must be fp32", own->name);
    if (same) return PROPANE_OK;
    char shapes[2][200] = {"", ""};
    for (int s = 0; s < 2; s++) {
        const int64_t *dim = s ? own->dim : given->dim;
        const int rank = s ? own->rank : given->rank < PROPANE_MAX_RANK ? given->rank : PROPANE_MAX_RANK;
        for (int d = 0, at = 0; d < rank; d++)
            at += snprintf(shapes[s] + at, sizeof shapes[s] - (size_t)at, "%s%lld", d ? "," : "", (long long)dim[d]);
    }
    return propane_fail(err, PROPANE_ERR_INVALID, "%.200s has the shape [%s], but this run trains one of shape [%s]",
                        own->name, shapes[0], shapes[1]);
}

static propane_status api_weights_check(const propane_trainer *t, const propane_tensor *given, propane_error *err) {
    train_trained own;
    if (!given->name || !given->values)
        return propane_fail(err, PROPANE_ERR_INVALID, "propane_tensor: a tensor needs a name and values");
    PROPANE_TRY(api_weights_find(t, given->name, &own, err));
    PROPANE_TRY(api_weights_check_shape(given, &own, err));
    const float *values = given->values;
    for (int64_t i = 0; i < own.count; i++)
        if (!isfinite(values[i]))
            return propane_fail(err, PROPANE_ERR_INVALID, "%.200s: element %lld is %g; no weights were changed",
                                own.name, (long long)i, (double)values[i]);
    return PROPANE_OK;
}

static propane_status api_weights_set(propane_trainer *t, const propane_tensor *tensors, int count,
                                      propane_error *err) {
    const train_options *o = train_run_options(t->run);
    train_trained own;
    PROPANE_TRY(api_weights_usable(t, err));
    if (o->mpi && mpi_size(o->mpi) > 1)
        return propane_fail(err, PROPANE_ERR_UNSUPPORTED, "weights cannot be replaced in a run with several ranks");
    for (int i = 0; i < count; i++) PROPANE_TRY(api_weights_check(t, &tensors[i], err));
    for (int i = 0; i < count; i++) {
        PROPANE_TRY(api_weights_find(t, tensors[i].name, &own, err));
        memcpy(own.data, tensors[i].values, (size_t)own.count * sizeof(float));
    }
    return train_run_changed(t->run, err);
}

propane_status propane_trainer_set(propane_trainer *t, const propane_tensor *tensors, int count, propane_error *err) {
    NEED_AS(err, "trainer", t);
    NEED_LIST(err, tensors, count);
    API_ERROR(err);
    PROPANE_TRY(api_trainer_begin(t, err));
    return api_trainer_end(t, api_weights_set(t, tensors, count, err));
}
