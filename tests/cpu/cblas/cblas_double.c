/* SPDX-License-Identifier: MIT
 * Replaces a CBLAS in tests: computes products as slow sums in double, rounded once, and counts its calls. It never
 * reads C if beta is 0, and ends the process if a stride is too small, as others do. The environment variable
 * CBLAS_DOUBLE selects a fault: "wrong" makes its products wrong; "slow" makes each take at least 20 ms, so that it is
 * never the faster one, even on a busy machine.
 */
#define _DEFAULT_SOURCE /* for usleep */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Atomic long cblas_double_calls;
int cblas_double_threads = 2; /* as set in the library */

void openblas_set_num_threads(int threads);
void openblas_set_num_threads(int threads) { cblas_double_threads = threads; }

void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc);
void cblas_sgemm(int order, int turn_a, int turn_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc) {
    enum { ROWS = 101, AS_IS = 111 };
    const char *how = getenv("CBLAS_DOUBLE");
    const size_t a_row = turn_a == AS_IS ? (size_t)lda : 1, a_step = turn_a == AS_IS ? 1 : (size_t)lda;
    const size_t b_row = turn_b == AS_IS ? (size_t)ldb : 1, b_step = turn_b == AS_IS ? 1 : (size_t)ldb;
    if (order != ROWS || lda < (turn_a == AS_IS ? k : m) || ldb < (turn_b == AS_IS ? n : k) || ldc < n) abort();
    cblas_double_calls++;
    double *line = malloc((size_t)n * sizeof *line);
    if (!line) abort();
    if (how && strcmp(how, "slow") == 0) usleep(20000);
    for (int i = 0; i < m; i++) {
        memset(line, 0, (size_t)n * sizeof *line);
        for (int l = 0; l < k; l++) {
            const double left = (double)a[(size_t)i * a_row + (size_t)l * a_step];
            for (int j = 0; j < n; j++) line[j] += left * (double)b[(size_t)l * b_row + (size_t)j * b_step];
        }
        for (int j = 0; j < n; j++) {
            float *to = &c[(size_t)i * (size_t)ldc + (size_t)j];
            const double was = beta != 0 ? (double)beta * (double)*to : 0;
            *to = (float)((double)alpha * line[j] + was + (how && strcmp(how, "wrong") == 0));
        }
    }
    free(line);
}
