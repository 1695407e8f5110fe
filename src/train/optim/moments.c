/* SPDX-License-Identifier: MIT
 * Owns the names and sizes of the forms of moments, and selects the instruction set that stores them (moments_body.h).
 */
#include "train/optim/moments.h"

#include <string.h>

#include "core/base/isa.h"
#include "train/optim/moments_kernels.h"

moment_form moment_form_of(const char *word) {
    if (word && strcmp(word, "bf16") == 0) return MOMENT_BF16;
    return word && strcmp(word, "int8") == 0 ? MOMENT_INT8 : MOMENT_FP32;
}

const char *moment_form_name(moment_form form) {
    return form == MOMENT_INT8 ? "int8" : form == MOMENT_BF16 ? "bf16" : "fp32";
}

static const moments_kernels *moments_set(void) {
#if defined(__x86_64__)
    if (cpu_isa_allows(CPU_ISA_AVX512)) return &moments_avx512;
    if (cpu_isa_allows(CPU_ISA_AVX2)) return &moments_avx2;
#endif
    return &moments_plain;
}

void moments_load(const moments *m, int64_t begin, int64_t count, float *out) {
    moments_set()->load(m, begin, count, out);
}

void moments_store(const moments *m, int64_t begin, int64_t count, const float *x, uint32_t key) {
    moments_set()->store(m, begin, count, x, key);
}

void moments_pair_load(const moments_pair *p, int64_t begin, int64_t count, float *x1, float *x2) {
    const moments_kernels *set = moments_set();
    if (count == MOMENT_BLOCK) {
        set->load_two(p, begin, x1, x2);
        return;
    }
    set->load(&p->first, begin, count, x1);
    set->load(&p->second, begin, count, x2);
}

void moments_pair_store(const moments_pair *p, int64_t begin, int64_t count, const float *x1, const float *x2,
                        uint32_t key) {
    const moments_kernels *set = moments_set();
    if (count == MOMENT_BLOCK) {
        set->store_two(p, begin, x1, x2, key);
        return;
    }
    set->store(&p->first, begin, count, x1, key);
    set->store(&p->second, begin, count, x2, key);
}
