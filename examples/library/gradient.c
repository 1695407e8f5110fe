/* SPDX-License-Identifier: MIT
 * Differentiates a MIL function and checks the gradient by differences: gradient. The function is the mean of tanh(x
 * w). Its derivative by w is compared with the change caused by a small step in each element of w.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "propane.h"

enum { ROWS = 3, IN = 4, OUT = 2, COUNT = IN * OUT };

static const char program[] = "program(1.3)\n{\n"
                              "func main<ios18>(tensor<fp32, [3, 4]> x, tensor<fp32, [4, 2]> w) {\n"
                              "tensor<fp32, [3, 2]> p = matmul(x = x, y = w)[name = string(\"p\")];\n"
                              "tensor<fp32, [3, 2]> t = tanh(x = p)[name = string(\"t\")];\n"
                              "tensor<fp32, []> loss = reduce_mean(x = t, axes = tensor<int32, [2]>([0, 1]), "
                              "keep_dims = bool(false))[name = string(\"loss\")];\n} -> (loss);\n}\n";

static propane_status loss_at(propane_session *s, const float *w, float *loss, propane_error *err) {
    propane_status status = propane_session_set(s, "w", PROPANE_FP32, w, COUNT, err);
    if (!status) status = propane_session_run(s, NULL, err);
    return status ? status : propane_session_get(s, "loss", PROPANE_FP32, loss, 1, err);
}

/* The gradient's inputs are the function's inputs and d_loss; its outputs are loss and d_w. */
static propane_status derivative(propane_session *s, const float *x, const float *w, float *d_w, propane_error *err) {
    const float one = 1;
    propane_status status = propane_session_set(s, "x", PROPANE_FP32, x, ROWS * IN, err);
    if (!status) status = propane_session_set(s, "w", PROPANE_FP32, w, COUNT, err);
    if (!status) status = propane_session_set(s, "d_loss", PROPANE_FP32, &one, 1, err);
    if (!status) status = propane_session_run(s, NULL, err);
    return status ? status : propane_session_get(s, "d_w", PROPANE_FP32, d_w, COUNT, err);
}

static propane_status compare(propane_session *s, const float *x, float *w, const float *d_w, double *worst,
                              propane_error *err) {
    const float step = 1e-2f;
    propane_status status = propane_session_set(s, "x", PROPANE_FP32, x, ROWS * IN, err);
    for (int i = 0; i < COUNT && !status; i++) {
        const float old = w[i];
        float above = 0, below = 0;
        w[i] = old + step;
        status = loss_at(s, w, &above, err);
        w[i] = old - step;
        if (!status) status = loss_at(s, w, &below, err);
        w[i] = old;
        const double slope = ((double)above - (double)below) / (2 * (double)step);
        printf("d_w[%d] = %9.6f, by differences %9.6f\n", i, (double)d_w[i], slope);
        *worst = fmax(*worst, fabs(slope - (double)d_w[i]));
    }
    return status;
}

int main(void) {
    propane_error err = {0};
    propane_module *m = NULL, *g = NULL;
    propane_session *forward = NULL, *backward = NULL;
    float x[ROWS * IN], w[COUNT], d_w[COUNT] = {0};
    double worst = 0;
    const char *const by[] = {"w"};
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)(i % 5 - 2) / 3;
    for (int i = 0; i < COUNT; i++) w[i] = (float)(i % 3 - 1) / 2;
    propane_status status = propane_module_parse(program, strlen(program), "program", NULL, &m, &err);
    if (!status) status = propane_module_gradient(m, NULL, "gradient", by, 1, &g, &err);
    if (!status) status = propane_session_open_module(g, NULL, &backward, &err); /* takes ownership of the module */
    if (!status) status = derivative(backward, x, w, d_w, &err);
    if (!status) {
        status = propane_session_open_module(m, NULL, &forward, &err);
        m = NULL;
    }
    if (!status) status = compare(forward, x, w, d_w, &worst, &err);
    if (status) fprintf(stderr, "gradient: %s\n", err.text);
    if (!status) printf("largest difference %.1e\n", worst);
    propane_module_free(m);
    propane_session_close(forward);
    propane_session_close(backward);
    return status || worst > 1e-4;
}
