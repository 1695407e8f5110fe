/* SPDX-License-Identifier: MIT
 * The device layer's calls to a driver, and their order: optional functions, locks of other devices' buffers, programs
 * compiled together, patches, profiles, queues of each depth. Every object is destroyed exactly once.
 */
#include <stdlib.h>

#include "core/base/memory.h"
#include "core/device/driver.h"
#include "device/scripted.h"
#include "support/test.h"

static propane_error err;

static propane_module *parsed(void) {
    propane_module *m = NULL;
    EXPECT_OK(propane_module_parse(scripted_program, strlen(scripted_program), "scripted.mil", NULL, &m, &err));
    return m;
}

static propane_device *opened(const char *uri) {
    propane_device *d = NULL;
    EXPECT_OK(propane_device_open(uri, &d, &err));
    return d;
}

static propane_program *compiled(propane_device *d) {
    propane_module *m = parsed();
    propane_program *p = NULL;
    EXPECT_OK(propane_program_compile(d, m, NULL, &p, &err));
    propane_module_free(m);
    return p;
}

static propane_buffer *buffer_of(propane_device *d, size_t bytes) {
    propane_buffer *b = NULL;
    EXPECT_OK(propane_buffer_create(d, bytes, &b, &err));
    return b;
}

static propane_status request_of(propane_program *p, propane_buffer *in, propane_buffer *out, propane_request **r) {
    const propane_binding bindings[] = {{"command", in}, {"order", out}};
    return propane_request_create(p, bindings, 2, r, &err);
}

/* ---- the ends ---------------------------------------------------------------------------------------------------- */

/* In whatever order the user releases objects, each is destroyed once, after everything that refers to it. */
TEST(every_object_ends_once_in_any_order) {
    static const char *const orders[] = {"rbpd", "dpbr", "pdrb", "bdrp"};
    for (int i = 0; i < 4; i++) {
        const int64_t live = mem_live_count();
        script = (script_calls){0};
        propane_device *d = opened("full");
        propane_program *p = compiled(d);
        propane_buffer *in = buffer_of(d, 16), *out = buffer_of(d, 32);
        propane_event *event = NULL;
        propane_request *r = NULL;
        EXPECT_OK(propane_event_create(d, &event, &err));
        EXPECT_OK(request_of(p, in, out, &r));
        propane_event_point point = {event, 1};
        EXPECT_OK(propane_request_events(r, NULL, 0, &point, 1, &err));
        EXPECT(propane_buffer_bytes(out) == 32 && propane_buffer_bytes(NULL) == 0);
        for (const char *c = orders[i]; *c; c++) {
            EXPECT(script.closed == 0);
            if (*c == 'r') propane_request_free(r);
            if (*c == 'b') propane_buffer_free(in), propane_buffer_free(out), propane_event_free(event);
            if (*c == 'p') propane_program_free(p);
            if (*c == 'd') propane_device_close(d);
        }
        EXPECT(script.opened == 1 && script.closed == 1 && script.compiled == 1 && script.freed == 1);
        EXPECT(script.buffers == 2 && script.buffers_freed == 2 && script.prepared == 1 && script.requests_freed == 1);
        EXPECT_MSG(mem_live_count() == live, "order %s: %lld blocks are left", orders[i],
                   (long long)(mem_live_count() - live));
    }
}

/* ---- buffers of other devices ------------------------------------------------------------------------------------ */

/* A device of the host runs on buffers that the host sees only while they are locked. They are locked around each
 * run, outputs for writing. */
TEST(buffers_of_other_devices_are_locked_while_a_request_runs) {
    propane_device *host = opened("host"), *full = opened("full");
    propane_program *p = compiled(host);
    propane_buffer *in = buffer_of(full, 16), *out = buffer_of(full, 16), *own = buffer_of(host, 16);
    propane_request *r = NULL, *mixed = NULL;
    EXPECT_OK(request_of(p, in, out, &r));
    EXPECT_OK(request_of(p, own, out, &mixed));
    script = (script_calls){0};
    const int begun = atomic_load(&scripted_count);
    for (int i = 1; i <= 3; i++) {
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        EXPECT(script.locked == 2 * i && script.unlocked == 2 * i && script.locked_for_writing == i);
    }
    EXPECT_OK(propane_submit(&mixed, 1, &err));
    EXPECT_OK(propane_wait(mixed, NULL, &err));
    EXPECT(script.locked == 7 && script.unlocked == 7 && script.locked_for_writing == 4);
    EXPECT(atomic_load(&scripted_count) == begun + 4);
    for (int fails = 0; fails < 2;
         fails++) { /* buffers that were locked before the failure are unlocked, and nothing runs */
        script = (script_calls){.fail = 'l', .fail_in = fails};
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_FAIL(propane_wait(r, NULL, &err), PROPANE_ERR_DEVICE, "call 'l' fails");
        EXPECT(script.locked == fails && script.unlocked == fails && atomic_load(&scripted_count) == begun + 4);
    }
    script = (script_calls){0};
    EXPECT_OK(propane_submit(&r, 1, &err)); /* and the request may run again */
    EXPECT_OK(propane_wait(r, NULL, &err));
    propane_request_free(r), propane_request_free(mixed);
    propane_buffer_free(in), propane_buffer_free(out), propane_buffer_free(own);
    propane_program_free(p);
    propane_device_close(host), propane_device_close(full);
}

/* Only a device of the host accepts buffers of others, and only those that the host can see. */
TEST(buffers_of_other_devices_need_memory_of_the_host) {
    propane_device *host = opened("host"), *full = opened("full"), *other = opened("other");
    propane_program *on_host = compiled(host), *on_full = compiled(full);
    propane_buffer *h = buffer_of(host, 16), *f = buffer_of(full, 16), *o = buffer_of(other, 16),
                   *f2 = buffer_of(full, 16);
    propane_request *r = NULL;
    EXPECT_FAIL(request_of(on_full, f, h, &r), PROPANE_ERR_INVALID,
                "binding 'order': its buffer belongs to another device ('host') than the program ('full')");
    EXPECT(!r);
    script = (script_calls){0};
    EXPECT_OK(request_of(on_host, o, h, &r)); /* always visible: nothing is locked */
    EXPECT_OK(propane_submit(&r, 1, &err));
    EXPECT_OK(propane_wait(r, NULL, &err));
    EXPECT(script.locked == 0 && script.prepared == 0);
    propane_request_free(r);
    EXPECT_OK(request_of(on_full, f, f2, &r)); /* its own: it locks nothing either */
    EXPECT(script.prepared == 1);
    propane_request_free(r);
    script = (script_calls){.fail = 'p'};
    EXPECT_FAIL(request_of(on_full, f, f2, &r), PROPANE_ERR_DEVICE, "call 'p' fails");
    EXPECT(!r && script.requests_freed == 0);
    propane_buffer_free(h), propane_buffer_free(f), propane_buffer_free(o), propane_buffer_free(f2);
    propane_program_free(on_host), propane_program_free(on_full);
    propane_device_close(host), propane_device_close(full), propane_device_close(other);
}

/* ---- bindings and events ----------------------------------------------------------------------------------------- */

TEST(bindings_are_complete_and_large_enough) {
    propane_device *d = opened("scripted");
    propane_program *p = compiled(d);
    propane_buffer *a = buffer_of(d, 16), *b = buffer_of(d, 16), *small = buffer_of(d, 15), *large = buffer_of(d, 17);
    propane_request *r = NULL;
    const propane_binding none[] = {{NULL, a}}, unknown[] = {{"x", a}}, twice[] = {{"order", a}, {"order", b}},
                          empty[] = {{"order", NULL}}, out[] = {{"order", a}}, in[] = {{"command", a}};
    EXPECT_FAIL(propane_request_create(p, none, 1, &r, &err), PROPANE_ERR_INVALID,
                "a name is missing; the program has command, order");
    EXPECT_FAIL(propane_request_create(p, unknown, 1, &r, &err), PROPANE_ERR_INVALID,
                "binding 'x': the program has no such input or output; it has command, order");
    EXPECT_FAIL(propane_request_create(p, twice, 2, &r, &err), PROPANE_ERR_INVALID, "binding 'order': bound twice");
    EXPECT_FAIL(propane_request_create(p, empty, 1, &r, &err), PROPANE_ERR_INVALID, "its buffer is missing");
    EXPECT_FAIL(propane_request_create(p, out, 1, &r, &err), PROPANE_ERR_INVALID,
                "binding 'command': this input is not bound");
    EXPECT_FAIL(propane_request_create(p, in, 1, &r, &err), PROPANE_ERR_INVALID,
                "binding 'order': this output is not bound");
    EXPECT_FAIL(propane_request_create(p, NULL, 0, &r, &err), PROPANE_ERR_INVALID, "is not bound");
    EXPECT_FAIL(request_of(p, a, small, &r), PROPANE_ERR_INVALID, "the buffer has 15 bytes, but 16 are needed");
    EXPECT_FAIL(request_of(p, a, a, &r), PROPANE_ERR_INVALID,
                "output 'order' is bound to the buffer of input 'command', which the program still reads");
    EXPECT(!r);
    EXPECT_OK(request_of(p, a, large, &r));
    propane_request_free(r);
    propane_request_free(NULL);
    propane_buffer_free(a), propane_buffer_free(b), propane_buffer_free(small), propane_buffer_free(large);
    propane_buffer_free(NULL);
    propane_program_free(p);
    propane_device_close(d);
}

TEST(shares_are_found_by_output_and_input) {
    static const driver_share shares[] = {{0, 1}, {0, 4}, {1, 0}, {3, 2}};
    for (int output = 0; output < 5; output++)
        for (int input = 0; input < 6; input++) {
            bool there = false;
            for (int i = 0; i < 4; i++) there |= shares[i].output == output && shares[i].input == input;
            EXPECT(driver_may_share(shares, 4, output, input) == there);
            EXPECT(!driver_may_share(shares, 0, output, input) && !driver_may_share(NULL, 0, output, input));
        }
    EXPECT(driver_share_compare(&shares[0], &shares[1]) < 0 && driver_share_compare(&shares[1], &shares[0]) > 0);
    EXPECT(driver_share_compare(&shares[1], &shares[2]) < 0 && driver_share_compare(&shares[3], &shares[2]) > 0);
    EXPECT(driver_share_compare(&shares[2], &shares[2]) == 0);
}

/* Events may be replaced by others, by another number of them, or by the same with other values. The old ones are
 * released. */
TEST(events_of_a_request_are_replaced) {
    const int64_t live = mem_live_count();
    propane_device *d = opened("scripted");
    propane_program *p = compiled(d);
    propane_buffer *a = buffer_of(d, 16), *b = buffer_of(d, 16);
    propane_event *one = NULL, *two = NULL;
    propane_request *r = NULL;
    EXPECT_OK(propane_event_create(d, &one, &err));
    EXPECT_OK(propane_event_create(d, &two, &err));
    EXPECT_OK(request_of(p, a, b, &r));
    const propane_event_point first = {one, 3}, other = {two, 4}, both[] = {{one, 5}, {two, 6}},
                              bad[] = {{one, 1}, {NULL, 1}}, swapped[] = {{two, 8}, {one, 9}}, again = {one, 7};
    EXPECT_OK(propane_request_events(r, NULL, 0, &first, 1, &err));
    EXPECT_FAIL(propane_request_events(r, NULL, 0, bad, 2, &err), PROPANE_ERR_INVALID, "signals 1 has no event");
    EXPECT_FAIL(propane_request_events(r, bad, 2, NULL, 0, &err), PROPANE_ERR_INVALID, "waits 1 has no event");
    static const struct {
        uint64_t one, two;
    } want[] = {{3, 0}, {7, 0}, {7, 4}, {7, 6}, {9, 8}, {9, 8}};
    const propane_event_point *signals[] = {&first, &again, &other, both, swapped, NULL};
    static const int counts[] = {1, 1, 1, 2, 2, 0};
    for (int i = 0; i < 6; i++) {
        EXPECT_OK(propane_request_events(r, NULL, 0, signals[i], counts[i], &err));
        EXPECT_OK(propane_submit(&r, 1, &err));
        EXPECT_OK(propane_wait(r, NULL, &err));
        EXPECT_MSG(propane_event_value(one) == want[i].one && propane_event_value(two) == want[i].two, "%d: %llu, %llu",
                   i, (unsigned long long)propane_event_value(one), (unsigned long long)propane_event_value(two));
    }
    /* a wait for a value that was reached returns at once; both values of two waits are changed */
    const propane_event_point there[] = {{one, 9}, {two, 8}}, less[] = {{one, 1}, {two, 1}};
    EXPECT_OK(propane_request_events(r, there, 2, &again, 1, &err));
    EXPECT_OK(propane_request_events(r, less, 2, &other, 1, &err));
    EXPECT_OK(propane_request_events(r, there, 2, &other, 1, &err));
    EXPECT_OK(propane_submit(&r, 1, &err));
    EXPECT_OK(propane_wait(r, NULL, &err));
    propane_request_free(r);
    propane_buffer_free(a), propane_buffer_free(b);
    propane_event_free(one), propane_event_free(two);
    propane_program_free(p);
    propane_device_close(d);
    EXPECT(mem_live_count() == live);
    EXPECT(propane_event_value(NULL) == 0);
    propane_event_signal(NULL, 1);
}

/* ---- compiling --------------------------------------------------------------------------------------------------- */

TEST(options_of_a_compile_are_checked_before_the_driver_sees_them) {
    propane_device *plain = opened("scripted"), *full = opened("full"), *second = opened("full");
    propane_module *m = parsed();
    propane_program *p = NULL, *donor = compiled(full), *stranger = compiled(second);
    propane_compile_options o = {.size = sizeof o, .precision = (propane_precision)2};
    EXPECT_FAIL(propane_program_compile(plain, m, &o, &p, &err), PROPANE_ERR_INVALID,
                "compile: precision is 2; it must be 0 or 1");
    o = (propane_compile_options){.size = sizeof o, .threads = -1};
    EXPECT_FAIL(propane_program_compile(plain, m, &o, &p, &err), PROPANE_ERR_INVALID, "compile: threads is -1");
    EXPECT_FAIL(propane_program_supported(plain, m, &o, &err), PROPANE_ERR_INVALID, "compile: threads is -1");
    o = (propane_compile_options){.size = sizeof o, .function = "nothing"};
    EXPECT_FAIL(propane_program_compile(plain, m, &o, &p, &err), PROPANE_ERR_NOT_FOUND, "nothing");
    EXPECT(propane_program_compile(plain, m, &o, &p, NULL) == PROPANE_ERR_NOT_FOUND);
    o = (propane_compile_options){.size = sizeof o, .donor = donor};
    EXPECT_FAIL(propane_program_compile(plain, m, &o, &p, &err), PROPANE_ERR_UNSUPPORTED,
                "device 'scripted' cannot use a compiled program again with other weights");
    EXPECT_OK(propane_program_compile(full, m, &o, &p, &err));
    propane_program_free(p);
    o.donor = stranger;
    EXPECT_FAIL(propane_program_compile(full, m, &o, &p, &err), PROPANE_ERR_UNSUPPORTED, "of another device");
    o = (propane_compile_options){.size = sizeof o, .reloadable = true};
    EXPECT_FAIL(propane_program_compile(plain, m, &o, &p, &err), PROPANE_ERR_UNSUPPORTED, "compile it again");
    EXPECT(!p);
    EXPECT_OK(propane_program_compile(full, m, &o, &p, &err));
    propane_program_free(p);
    o = (propane_compile_options){
        .size = sizeof o, .precision = PROPANE_PRECISION_BF16, .threads = 3, .function = "main"};
    EXPECT_OK(propane_program_compile(plain, m, &o, &p, &err));
    EXPECT_OK(propane_program_supported(plain, m, &o, &err));
    propane_program_free(p), propane_program_free(donor), propane_program_free(stranger);
    propane_program_free(NULL);
    propane_module_free(m);
    propane_device_close(plain), propane_device_close(full), propane_device_close(second);
}

/* Inputs and outputs of 1 GB and more must fit into the machine's available memory; smaller ones are not checked. */
TEST(inputs_and_outputs_need_memory) {
    static const struct {
        int64_t count; /* of fp32 numbers, once in and once out */
        uint64_t spare;
        bool fits;
    } cases[] = {{4, 1, true},
                 {(1 << 27) - 1, 1, true},
                 {1 << 27, 1, false},
                 {1 << 27, (1 << 30) - 1, false},
                 {1 << 27, 1 << 30, true},
                 {1 << 28, 1 << 30, false},
                 {1 << 28, (uint64_t)1 << 31, true}};
    propane_device *d = opened("scripted");
    for (int i = 0; i < 7; i++) {
        char source[400];
        propane_module *m = NULL;
        propane_program *p = NULL;
        snprintf(source, sizeof source,
                 "program(1.3)\n{\n    func main<ios17>(tensor<fp32, [%lld]> a) {\n        tensor<fp32, [%lld]> y = "
                 "identity(x = a)[name = string(\"y\")];\n    } -> (y);\n}\n",
                 (long long)cases[i].count, (long long)cases[i].count);
        EXPECT_OK(propane_module_parse(source, strlen(source), "source", NULL, &m, &err));
        mem_spare_pin(cases[i].spare);
        const propane_status status = propane_program_compile(d, m, NULL, &p, &err);
        mem_spare_pin(0);
        EXPECT_MSG(status == (cases[i].fits ? PROPANE_OK : PROPANE_ERR_LIMIT), "case %d: %s", i, err.text);
        EXPECT(cases[i].fits || strstr(err.text, "function 'main': its inputs and outputs alone need "));
        propane_program_free(p);
        propane_module_free(m);
    }
    propane_device_close(d);
}

TEST(inputs_and_outputs_are_found_by_name_and_number) {
    propane_device *d = opened("scripted");
    propane_program *p = compiled(d);
    EXPECT(propane_program_input_count(p) == 1 && propane_program_output_count(p) == 1);
    const propane_io *in = propane_program_input(p, 0), *out = propane_program_output(p, 0);
    EXPECT_TEXT(in->name, "command");
    EXPECT_TEXT(out->name, "order");
    EXPECT(in->dtype == PROPANE_INT32 && in->rank == 1 && in->dim[0] == 4 && in->stride[0] == 4 && in->bytes == 16);
    EXPECT(propane_program_find(p, "command") == in && propane_program_find(p, "order") == out);
    EXPECT(!propane_program_find(p, "other") && !propane_program_find(p, "comman") && !propane_program_find(p, NULL));
    EXPECT(!propane_program_input(p, 1) && !propane_program_input(p, -1) && !propane_program_output(p, 1) &&
           !propane_program_output(p, -1));
    EXPECT(propane_io_count(in) == 4 && propane_io_count(NULL) == 0);
    EXPECT(propane_program_input_count(NULL) == 0 && propane_program_output_count(NULL) == 0);
    EXPECT(!propane_program_input(NULL, 0) && !propane_program_output(NULL, 0) && !propane_program_find(NULL, "order"));
    const propane_io three = {.rank = 3, .dim = {2, 3, 5}}, scalar = {.rank = 0}, none = {.rank = 2, .dim = {4, 0}};
    EXPECT(propane_io_count(&three) == 30 && propane_io_count(&scalar) == 1 && propane_io_count(&none) == 0);
    propane_program_free(p);
    propane_device_close(d);
}

/* Either all items are compiled or none, whether the driver compiles them together or one by one. */
TEST(several_programs_are_compiled_together) {
    static const char *const uris[] = {"full", "scripted"};
    for (int i = 0; i < 2; i++) {
        const int64_t live = mem_live_count();
        script = (script_calls){0};
        propane_device *d = opened(uris[i]);
        propane_module *m = parsed();
        propane_compile_report report = {.size = sizeof report};
        propane_compile_item items[3] = {{.module = m}, {.module = m, .function = "main"}, {.module = m}};
        EXPECT_OK(propane_program_compile_all(d, items, 3, NULL, &report, &err));
        EXPECT(report.failed == -1 && report.compiles == (i ? 3 : 1) && report.procedures == (i ? 0 : 3));
        EXPECT(script.compiled_together == (i ? 0 : 3) && script.compiled == (i ? 3 : 0));
        if (i) EXPECT_TEXT(report.how, "a program each");
        for (int k = 0; k < 3; k++) {
            EXPECT(propane_program_find(items[k].program, "order"));
            propane_program_free(items[k].program);
        }
        EXPECT(script.freed == 3);
        EXPECT_OK(propane_program_compile_all(d, items, 3, NULL, NULL, &err));
        for (int k = 0; k < 3; k++) propane_program_free(items[k].program);
        EXPECT_OK(propane_program_compile_all(d, NULL, 0, NULL, &report, &err));
        EXPECT(report.failed == -1 && report.compiles == 0);
        items[1].function = "nothing";
        EXPECT_FAIL(propane_program_compile_all(d, items, 3, NULL, &report, &err), PROPANE_ERR_NOT_FOUND, "nothing");
        EXPECT(report.failed == 1 && !items[0].program && !items[1].program && !items[2].program);
        items[1].function = NULL, items[2].module = NULL;
        EXPECT_FAIL(propane_program_compile_all(d, items, 3, NULL, &report, &err), PROPANE_ERR_INVALID,
                    "items[2] has no module");
        EXPECT(report.failed == 2 && !items[0].program);
        items[0].module = items[2].module = NULL;
        EXPECT_FAIL(propane_program_compile_all(d, items, 3, NULL, &report, &err), PROPANE_ERR_INVALID,
                    "items[0] has no module");
        EXPECT(report.failed == 0);
        items[0].module = items[2].module = m;
        const propane_compile_options ignored = {.size = sizeof ignored, .function = "nothing", .reloadable = true};
        EXPECT_OK(propane_program_compile_all(d, items, 3, &ignored, &report, &err));
        for (int k = 0; k < 3; k++) propane_program_free(items[k].program);
        script.fail = 'c';
        if (i == 0) {
            EXPECT_FAIL(propane_program_compile_all(d, items, 3, NULL, &report, &err), PROPANE_ERR_DEVICE, "'c' fails");
            EXPECT(report.failed == 1 && !items[0].program && !items[2].program);
        }
        propane_module_free(m);
        propane_device_close(d);
        EXPECT(mem_live_count() == live);
    }
}

/* ---- patches, profiles, native buffers --------------------------------------------------------------------------- */

TEST(constants_are_patched_in_fp16) {
    propane_device *full = opened("full"), *plain = opened("scripted");
    propane_program *p = compiled(full), *q = compiled(plain);
    const float values[] = {1.5f, 2, 3};
    const uint16_t halves[] = {0x3e00, 0x4000};
    script = (script_calls){0};
    EXPECT_FAIL(propane_program_patch(q, "w", PROPANE_FP32, values, 3, &err), PROPANE_ERR_UNSUPPORTED,
                "device 'scripted' cannot overwrite constants");
    EXPECT_FAIL(propane_program_patch(p, "w", PROPANE_INT32, values, 3, &err), PROPANE_ERR_INVALID,
                "patch 'w': values must be fp16 or fp32");
    EXPECT_FAIL(propane_program_patch(p, "w", PROPANE_FP32, NULL, 0, &err), PROPANE_ERR_INVALID,
                "patch 'w': no values");
    EXPECT_OK(propane_program_patch(p, "w", PROPANE_FP32, values, 3, &err));
    EXPECT(script.patched == 1 && script.patch_count == 3 && script.patch_first == 0x3e00);
    EXPECT_OK(propane_program_patch(p, "w", PROPANE_FP16, halves + 1, 1, &err));
    EXPECT(script.patched == 2 && script.patch_count == 1 && script.patch_first == 0x4000);
    script.fail = 'd';
    EXPECT_FAIL(propane_program_patch(p, "w", PROPANE_FP32, values, 3, &err), PROPANE_ERR_DEVICE, "'d' fails");
    propane_program_free(p), propane_program_free(q);
    propane_device_close(full), propane_device_close(plain);
}

TEST(profiles_are_of_devices_that_keep_one) {
    propane_device *full = opened("full"), *plain = opened("scripted");
    propane_program *p = compiled(full), *q = compiled(plain);
    propane_profile_row row = {.size = sizeof row};
    int count = -1;
    script = (script_calls){0};
    EXPECT_FAIL(propane_program_profile(q, true, &err), PROPANE_ERR_UNSUPPORTED, "device 'scripted' keeps no profile");
    EXPECT(propane_program_profile_count(q) == 0 && !propane_program_profile_get(q, 0, &row));
    EXPECT(!propane_program_fusion(q, 0, &count) && count == 0);
    EXPECT(propane_program_profile_count(p) == 0 && !propane_program_profile_get(p, 0, &row));
    EXPECT_OK(propane_program_profile(p, true, &err));
    EXPECT(propane_program_profile_count(p) == 2 && propane_program_profile_count(NULL) == 0);
    EXPECT(propane_program_profile_get(p, 1, &row) && row.runs == 11 && propane_program_profile_get(p, 0, &row));
    EXPECT(!propane_program_profile_get(p, 2, &row) && !propane_program_profile_get(p, -1, &row));
    EXPECT(!propane_program_profile_get(NULL, 0, &row) && !propane_program_profile_get(p, 0, NULL));
    EXPECT_TEXT(propane_program_fusion(p, 0, &count), "pair");
    EXPECT(count == 4 && !propane_program_fusion(p, 1, &count) && !propane_program_fusion(p, -1, &count));
    EXPECT(!propane_program_fusion(NULL, 0, &count) && !propane_program_fusion(p, 0, NULL));
    EXPECT_OK(propane_program_profile(p, false, &err));
    EXPECT(propane_program_profile_count(p) == 0);
    propane_program_free(p), propane_program_free(q);
    propane_device_close(full), propane_device_close(plain);
}

TEST(native_objects_are_those_of_the_driver) {
    propane_device *full = opened("full"), *plain = opened("scripted"), *host = opened("host");
    propane_buffer *f = buffer_of(full, 16), *odd = buffer_of(full, 13), *p = buffer_of(plain, 16), *wrapped = NULL;
    propane_native n = {.size = sizeof n};
    _Alignas(16) char memory[32];
    EXPECT(propane_buffer_native(f, &n) && n.fd == 77);
    EXPECT(!propane_buffer_native(odd, &n) && !propane_buffer_native(NULL, &n) && !propane_buffer_native(f, NULL));
    EXPECT(!propane_buffer_native(p, &n) && n.fd == -1);
    EXPECT_OK(propane_buffer_wrap(host, memory, sizeof memory, &wrapped, &err));
    EXPECT(!propane_buffer_native(wrapped, &n));
    propane_buffer_free(f), propane_buffer_free(odd), propane_buffer_free(p), propane_buffer_free(wrapped);
    propane_device_close(full), propane_device_close(plain), propane_device_close(host);
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

TEST(a_queue_has_from_1_to_4096_places) {
    propane_device *d = NULL;
    static const char *const wrong[] = {"deep:0", "deep:-1", "deep:4097"};
    for (int i = 0; i < 3; i++) {
        const int64_t live = mem_live_count();
        script = (script_calls){0};
        EXPECT_FAIL(propane_device_open(wrong[i], &d, &err), PROPANE_ERR_DEVICE, "outside 1..4096");
        EXPECT(!d && script.opened == 1 && script.closed == 1 && mem_live_count() == live);
    }
    d = opened("deep:4096");
    EXPECT(propane_device_describe(d)->queue_depth == 4096 && !propane_device_describe(NULL));
    propane_device_close(d);
    d = opened("deep:1");
    propane_program *p = compiled(d);
    propane_buffer *a = buffer_of(d, 16), *b = buffer_of(d, 16);
    propane_request *r = NULL, *s = NULL;
    propane_event *gate = NULL;
    EXPECT_OK(request_of(p, a, b, &r));
    EXPECT_OK(request_of(p, a, b, &s));
    EXPECT_OK(propane_event_create(d, &gate, &err));
    propane_event_point point = {gate, 1};
    EXPECT_OK(propane_request_events(r, &point, 1, NULL, 0, &err));
    propane_request *both[] = {s, r};
    EXPECT_FAIL(propane_submit(both, 2, &err), PROPANE_ERR_LIMIT,
                "no room for 2 more: 0 of at most 1 requests of 'deep:1' are in flight");
    propane_request *hole[] = {s, NULL};
    EXPECT_FAIL(propane_submit(hole, 2, &err), PROPANE_ERR_INVALID, "requests[1] is NULL");
    EXPECT_OK(propane_submit(&r, 1, &err));
    EXPECT_FAIL(propane_submit(&s, 1, &err), PROPANE_ERR_LIMIT, "no room for 1 more: 1 of at most 1");
    propane_event_signal(gate, 1);
    propane_completion done = {.size = sizeof done};
    EXPECT_OK(propane_wait(r, &done, &err));
    EXPECT(done.simulated && done.engine_ns == -1 && done.energy_j == -1);
    for (int i = 0; i < 5; i++) { /* the ring wraps around */
        EXPECT_OK(propane_submit(&s, 1, &err));
        EXPECT_OK(propane_wait(s, NULL, &err));
    }
    propane_request_free(r), propane_request_free(s);
    propane_event_free(gate);
    propane_buffer_free(a), propane_buffer_free(b);
    propane_program_free(p);
    propane_device_close(d);
}

TEST(a_uri_names_one_driver) {
    EXPECT(propane_uri_names("full", "full") && propane_uri_names("full:x", "full") &&
           propane_uri_names("full?a=1", "full"));
    EXPECT(!propane_uri_names("fuller", "full") && !propane_uri_names("ful", "full") &&
           !propane_uri_names("x:full", "full"));
    EXPECT(!propane_uri_names(NULL, "full") && !propane_uri_names("full", NULL));
    propane_device *d = opened("scripted?options");
    EXPECT_TEXT(propane_device_describe(d)->uri, "scripted?options");
    EXPECT_TEXT(propane_device_describe(d)->summary, "does what its input says");
    propane_device_close(d);
}

SUITE("device/contract", T(every_object_ends_once_in_any_order),
      T(buffers_of_other_devices_are_locked_while_a_request_runs), T(buffers_of_other_devices_need_memory_of_the_host),
      T(bindings_are_complete_and_large_enough), T(shares_are_found_by_output_and_input),
      T(events_of_a_request_are_replaced), T(options_of_a_compile_are_checked_before_the_driver_sees_them),
      T(inputs_and_outputs_need_memory), T(inputs_and_outputs_are_found_by_name_and_number),
      T(several_programs_are_compiled_together), T(constants_are_patched_in_fp16),
      T(profiles_are_of_devices_that_keep_one), T(native_objects_are_those_of_the_driver),
      T(a_queue_has_from_1_to_4096_places), T(a_uri_names_one_driver))
