/* SPDX-License-Identifier: MIT
 * Every row of limits.def: its required properties, and for each a smallest case that violates it and one that barely
 * does not. Cases of programs are files, tests/chip/cases/ID.bad.mil and ID.good.mil. Large ones are built here, as are
 * weight files, requests and processes. A row without a case fails.
 */
#include <dirent.h>
#include <stdlib.h>

#include "ane/chip/check.h"
#include "core/base/file.h"
#include "core/base/memory.h"
#include "core/base/text.h"
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "support/test.h"

static const chip *every[CHIP_COUNT];

static const chip *const *all_chips(void) {
    for (int i = 0; i < CHIP_COUNT; i++) every[i] = chip_get((chip_id)i);
    return every;
}

static chip_report *new_report_on(int os, chip_path path) {
    chip_report *r = chip_report_create(&(chip_check_options){all_chips(), CHIP_COUNT, os, 0, path, false});
    EXPECT(r != NULL);
    return r;
}

static chip_report *new_report(int os) { return new_report_on(os, CHIP_PATH_DIRECT); }

static const chip_finding *found(const chip_report *r, const char *id) {
    for (int i = 0; i < chip_report_count(r); i++)
        if (strcmp(chip_report_get(r, i)->limit->id, id) == 0) return chip_report_get(r, i);
    return NULL;
}

/* Expects the finding (or its absence), with the row's verdict for every chip; frees the report. */
static void expect_found(chip_report *r, const char *id, bool bad, int os) {
    const chip_finding *f = found(r, id);
    const chip_path path = chip_report_path(r);
    if (chip_limit_find(id)->on[path] == CHIP_SILENT) bad = false;
    EXPECT_MSG(!bad || f, "%s: what violates it is not found", id);
    EXPECT_MSG(bad || !f, "%s: found where it is not violated: %s", id, f ? f->message : "");
    for (int i = 0; f && i < CHIP_COUNT; i++) {
        chip_severity severity = CHIP_NOTE;
        bool on = chip_limit_on(f->limit, every[i], os, path, &severity);
        uint64_t bit = (uint64_t)1 << i;
        EXPECT_MSG(!(f->refused & bit) == !(on && severity == CHIP_REFUSE), "%s on %s", id, every[i]->name);
        EXPECT_MSG(!(f->fell & bit) == !(on && severity == CHIP_FALL), "%s on %s", id, every[i]->name);
        EXPECT_MSG(!(f->warned & bit) == !(on && severity == CHIP_WARN), "%s on %s", id, every[i]->name);
        EXPECT_MSG(!(f->noted & bit) == !(on && severity == CHIP_NOTE), "%s on %s", id, every[i]->name);
        EXPECT(f->message && *f->message && f->source);
    }
    chip_report_free(r);
}

/* ---- the rows ----------------------------------------------------------------------------------------------------------- */

static bool is_chip_word(const char *word, size_t n) {
    char copy[20];
    if (n >= sizeof copy) return false;
    memcpy(copy, word, n);
    copy[n] = 0;
    if (strcmp(copy, "all") == 0 || strcmp(copy, "macs") == 0 || strcmp(copy, "phones") == 0) return true;
    for (int i = 0; i < CHIP_COUNT; i++)
        if (strcmp(copy, every[i]->name) == 0 || strcmp(copy, chip_generation_name(every[i]->generation)) == 0)
            return true;
    return false;
}

static void expect_chips(const char *id, const char *list) {
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, " ");
        EXPECT_MSG(is_chip_word(at, n), "%s: '%.*s' is no chip", id, (int)n, at);
        at += n + (at[n] == ' ');
    }
}

static void expect_ops(const chip_limit *l) {
    for (const char *at = l->ops; *at;) {
        size_t n = strcspn(at, " ");
        EXPECT_MSG(mil_op_find(at, n), "%s: there is no op '%.*s'", l->id, (int)n, at);
        at += n + (at[n] == ' ');
    }
}

/* A row with evidence only from the compiler of MIL text must not refuse on Core ML's path, and vice versa. */
static void expect_paths(const chip_limit *l) {
    bool any = false, direct = false, coreml = false;
    for (const char *at = l->seen; *at;) {
        size_t n = strcspn(at, " ");
        if (n == 3 && memcmp(at, "any", n) == 0)
            any = true;
        else if (n == 6 && memcmp(at, "direct", n) == 0)
            direct = true;
        else if (n == 6 && memcmp(at, "coreml", n) == 0)
            coreml = true;
        else
            EXPECT_MSG((n == 4 && memcmp(at, "e5rt", n) == 0) || (n == 6 && memcmp(at, "coreai", n) == 0),
                       "%s: '%.*s' is no path", l->id, (int)n, at);
        at += n + (at[n] == ' ');
    }
    EXPECT_MSG(*l->seen, "%s: where was it seen?", l->id);
    const bool program = strcmp(chip_limit_scope(l), "program") == 0;
    EXPECT_MSG(!program || any || coreml || l->on[CHIP_PATH_COREML] != CHIP_REFUSE, "%s refuses on Core ML", l->id);
    EXPECT_MSG(!program || any || direct || !coreml || l->on[CHIP_PATH_DIRECT] != CHIP_REFUSE, "%s refuses directly",
               l->id);
}

TEST(each_row_says_what_who_and_what_to_do) {
    (void)all_chips();
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        for (int p = 0; p < CHIP_PATH_COUNT; p++)
            EXPECT_MSG(!l->harm[p] || l->on[p] >= CHIP_WARN, "%s: only warnings are of harm", l->id);
        EXPECT_MSG(chip_limit_find(l->id) == l, "%s stands there twice", l->id);
        EXPECT_MSG(strlen(l->sentence) > 15 && l->sentence[strlen(l->sentence) - 1] == '.', "%s: no sentence", l->id);
        EXPECT_MSG(strlen(l->source) >= 15, "%s: who saw it?", l->id);
        EXPECT_MSG(strlen(l->fix) >= 6, "%s: what to do?", l->id);
        EXPECT_MSG(*l->chips, "%s: on which chips?", l->id);
        for (int p = 0; p < CHIP_PATH_COUNT; p++)
            EXPECT_MSG(l->on[p] <= CHIP_WARN || l->evidence == CHIP_MEASURED || l->evidence == CHIP_DOCUMENTED,
                       "%s refuses on %s evidence", l->id, chip_evidence_name(l->evidence));
        EXPECT_MSG(l->on[CHIP_PATH_DIRECT] != CHIP_FALL, "%s: nothing falls back on the direct path", l->id);
        EXPECT_MSG(l->on[CHIP_PATH_DIRECT] != CHIP_SILENT || l->on[CHIP_PATH_COREML] != CHIP_SILENT, "%s says nothing",
                   l->id);
        expect_paths(l);
        EXPECT_MSG(!*l->ops || l->site == CHIP_SITE_OP, "%s names ops and is not about ops", l->id);
        expect_chips(l->id, l->chips);
        expect_chips(l->id, l->also);
        expect_ops(l);
    }
}

TEST(disputed_rules_warn) {
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        if (l->site == CHIP_SITE_FACT) continue;
        for (int c = 0; c < CHIP_COUNT; c++) {
            for (int p = 0; p < CHIP_PATH_COUNT; p++) {
                chip_severity s;
                if (!chip_limit_on(l, chip_get((chip_id)c), 0, (chip_path)p, &s)) continue;
                EXPECT_MSG(l->evidence != CHIP_DISPUTED || s <= CHIP_WARN, "%s is disputed", l->id);
                EXPECT_MSG(s <= l->on[p] || s == CHIP_WARN, "%s", l->id);
            }
        }
    }
}

TEST(each_figure_of_a_chip_has_a_source) {
    int figures = 0;
    for (int c = 0; c < CHIP_COUNT; c++)
        for (int f = 0; f < CHIP_FIELD_COUNT; f++) {
            const chip_figure *x = chip_know(chip_get((chip_id)c), (chip_field)f);
            EXPECT((x->value > 0) == (x->source != NULL));
            EXPECT_MSG(!x->source || strlen(x->source) >= 8, "%s %s", chip_get((chip_id)c)->name,
                       chip_field_name((chip_field)f));
            figures += x->source != NULL;
        }
    EXPECT(figures > 200);
}

TEST(chips_are_found_by_name) {
    propane_error err = {0};
    const chip *c, *list[CHIP_COUNT];
    int count;
    EXPECT_OK(chip_find("M4 Max", &c, &err));
    EXPECT(c->id == CHIP_m4_max);
    EXPECT_OK(chip_find("h16g", &c, &err));
    EXPECT(c->id == CHIP_m4);
    EXPECT_FAIL(chip_find("m9", &c, &err), PROPANE_ERR_NOT_FOUND, "there is no chip 'm9'; the chips are m1 ");
    EXPECT_FAIL(chip_find("", &c, &err), PROPANE_ERR_NOT_FOUND, "no chip ''");
    EXPECT_OK(chip_find_list("m1, m4-max,m1", list, &count, &err));
    EXPECT(count == 2 && list[1]->id == CHIP_m4_max);
    EXPECT_OK(chip_find_list("all,all-a", list, &count, &err));
    EXPECT(count == CHIP_COUNT);
    EXPECT_FAIL(chip_find_list("m1,,m2", list, &count, &err), PROPANE_ERR_NOT_FOUND, "''");
    EXPECT(chip_listed("h13 m3-ultra", chip_get(CHIP_m1_pro)) && chip_listed("h13 m3-ultra", chip_get(CHIP_m3_ultra)));
    EXPECT(!chip_listed("h13 m3-ultra", chip_get(CHIP_m3)) && !chip_listed("m4-max", chip_get(CHIP_m4)));
}

/* ---- programs ----------------------------------------------------------------------------------------------------------- */

/* Builds `count` convolutions, or relus, one after the other. */
static mil_module *chain(mil_opcode code, int count) {
    propane_error err = {0};
    mil_builder b;
    mil_module *m = mil_module_create("chain");
    EXPECT(m != NULL);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_value *v = mil_build_param(&b, "x", mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 1, 1, 32}));
    double one = 1;
    mil_type type = mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 1, 1, 1});
    mil_value *w = mil_build_const_f64(&b, "w", &type, &one);
    for (int i = 0; i < count; i++)
        v = code == MIL_OP_conv ? mil_build_conv1x1(&b, v, w) : mil_build_unary(&b, code, v);
    mil_build_result(&b, v);
    EXPECT_OK(mil_build_end(&b, &err));
    return m;
}

/* Builds one convolution with a constant weight [out,in,1,1]. It needs no data, because a check reads shapes. */
static mil_module *one_conv(int64_t out, int64_t in) {
    mil_module *m = chain(MIL_OP_conv, 1);
    mil_op *op = m->functions->first;
    while (op->info->code != MIL_OP_conv) op = op->next;
    mil_value *w = mil_in(op, "weight");
    mil_type type = mil_type_tensor(MIL_fp16, 4, (int64_t[]){out, in, 1, 1});
    w->type = type;
    ((mil_const *)(uintptr_t)w->constant)->type = type;
    return m;
}

typedef struct built_case {
    const char *id;
    mil_module *(*make)(int64_t a, int64_t b);
    int64_t bad[2], good[2];
} built_case;

static mil_module *convs(int64_t n, int64_t unused) { return chain(MIL_OP_conv, (int)n); }
static mil_module *relus(int64_t n, int64_t unused) { return chain(MIL_OP_relu, (int)n); }

/* Builds a sum of constants, each a record of one of `files` weight files. */
static mil_module *sum_of_files(int64_t files, int64_t constants) {
    propane_error err = {0};
    mil_builder b;
    mil_module *m = mil_module_create("files");
    EXPECT(m != NULL);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_type type = mil_type_tensor(MIL_fp16, 4, (int64_t[]){1, 1, 1, 32});
    mil_value *v = mil_build_param(&b, "x", type);
    double values[32] = {1};
    for (int i = 0; i < constants; i++) {
        mil_value *c = mil_build_const_f64(&b, "c", &type, values);
        mil_const *constant = (mil_const *)(uintptr_t)c->constant;
        constant->blob_path = i % files ? "@model_path/weights/b.bin" : "@model_path/weights/a.bin";
        constant->blob_offset = (uint64_t)(64 + 128 * i);
        v = mil_build_binary(&b, MIL_OP_add, v, c);
    }
    mil_build_result(&b, v);
    EXPECT_OK(mil_build_end(&b, &err));
    return m;
}

static const built_case built[] = {
    {"C37b", sum_of_files, {2, 3}, {1, 3}},
    {"C7a", one_conv, {4026531840 / 2 / 4096 + 1, 4096}, {4026531840 / 2 / 4096, 4096}},
    {"C7b", one_conv, {850001, 1000}, {850000, 1000}},
    {"C7d", one_conv, {500001, 1000}, {500000, 1000}},
    {"C7c", one_conv, {1700001, 1000}, {1700000, 1000}},
    {"C8a", convs, {384, 0}, {383, 0}},
    {"C8b", convs, {387, 0}, {386, 0}},
    {"C8c", relus, {2001, 0}, {2000, 0}},
    {"X7", one_conv, {300001, 1000}, {300000, 1000}},
    {"X7b", one_conv, {150001, 1000}, {150000, 1000}},
    {"C50", one_conv, {2048, 4096}, {2048, 4095}},
};

static void check_built(const built_case *c, bool bad) {
    propane_error err = {0};
    const int64_t *n = bad ? c->bad : c->good;
    mil_module *m = c->make(n[0], n[1]);
    for (int p = 0; p < CHIP_PATH_COUNT; p++) {
        chip_report *r = new_report_on(0, (chip_path)p);
        EXPECT_OK(chip_check_module(r, m, &err));
        expect_found(r, c->id, bad, 0);
    }
    mil_module_free(m);
}

static void check_program_file(const char *id, bool bad) {
    propane_error err = {0};
    char path[100];
    snprintf(path, sizeof path, "tests/chip/cases/%s.%s.mil", id, bad ? "bad" : "good");
    if (!file_exists(path)) snprintf(path, sizeof path, "tests/chip/cases/%s.%s.mlpackage", id, bad ? "bad" : "good");
    EXPECT_MSG(file_exists(path) || file_is_dir(path), "row %s has no case %s", id, path);
    const int os = chip_limit_find(id)->os_max; /* 0 means any system */
    for (int p = 0; p < CHIP_PATH_COUNT; p++) {
        chip_report *r = new_report_on(os, (chip_path)p);
        EXPECT_OK(chip_check_file(r, path, &err));
        EXPECT_MSG(strcmp(id, "L1") == 0 || !found(r, "L1"), "%s: %s", path,
                   found(r, "L1") ? found(r, "L1")->message : "");
        expect_found(r, id, bad, os);
    }
}

TEST(each_rule_about_programs_has_its_cases) {
    int rows = 0;
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        if (strcmp(chip_limit_scope(l), "program") != 0) continue;
        const built_case *c = NULL;
        for (size_t k = 0; k < sizeof built / sizeof built[0]; k++)
            if (strcmp(built[k].id, l->id) == 0) c = &built[k];
        for (int bad = 0; bad < 2; bad++) {
            if (c)
                check_built(c, bad);
            else
                check_program_file(l->id, bad);
        }
        rows++;
    }
    EXPECT(rows >= 50);
}

static void expect_no_fault(const char *path) {
    propane_error err = {0};
    chip_report *r = new_report_on(0, CHIP_PATH_COREML);
    EXPECT_OK(chip_check_file(r, path, &err));
    for (int k = 0; k < chip_report_count(r); k++) {
        const chip_finding *f = chip_report_get(r, k);
        EXPECT_MSG(f->severity < CHIP_WARN, "%s: %s: %s", path, f->limit->id, f->message);
    }
    chip_report_free(r);
}

/* Programs like those known to run on engines: no rule may refuse them, move them or warn about them, on any chip. */
TEST(what_works_is_not_found_fault_with) {
    DIR *folder = opendir("tests/chip/works");
    EXPECT(folder != NULL);
    int count = 0;
    for (const struct dirent *e; (e = readdir(folder));) {
        char path[300];
        if (!strstr(e->d_name, ".mil")) continue;
        snprintf(path, sizeof path, "tests/chip/works/%s", e->d_name);
        expect_no_fault(path);
        count++;
    }
    closedir(folder);
    EXPECT(count >= 9);
}

TEST(findings_say_where) {
    propane_error err = {0};
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_file(r, "tests/chip/cases/C20.bad.mil", &err));
    const chip_finding *f = found(r, "C20");
    EXPECT(f && f->line == 5 && f->column == 9);
    EXPECT_TEXT(f->op, "gelu");
    EXPECT_TEXT(f->name, "y");
    EXPECT_TEXT(f->function, "main");
    EXPECT_TEXT(f->message, "mode is omitted");
    chip_report_free(r);

    r = new_report(0);
    EXPECT_OK(chip_check_file(r, "tests/chip/cases/L1.bad.mil", &err));
    f = found(r, "L1");
    EXPECT(f && f->line == 5 && f->column > 1);
    EXPECT(strstr(f->message, "rellu"));
    chip_report_free(r);
}

TEST(rules_about_versions_of_the_system) {
    propane_error err = {0};
    const int versions[] = {0, 1507, 2600, 2603};
    for (int i = 0; i < 4; i++) {
        chip_report *r = new_report(versions[i]);
        EXPECT_OK(chip_check_file(r, "tests/chip/cases/C35.bad.mil", &err));
        EXPECT((found(r, "C35") != NULL) == (versions[i] != 1507));
        chip_report_free(r);
    }
}

TEST(many_findings_are_collected_and_counted) {
    propane_error err = {0};
    mil_module *m = chain(MIL_OP_sin, 100);
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_module(r, m, &err));
    EXPECT(chip_report_total(r, chip_get(CHIP_m1), CHIP_REFUSE) == 100);
    EXPECT(chip_report_total(r, chip_get(CHIP_m4), CHIP_REFUSE) == 0);
    EXPECT(chip_report_worst(r) == CHIP_REFUSE);
    text out = {0};
    chip_report_print(r, &(chip_print){0}, &out);
    EXPECT(!out.failed && strstr(out.data, "and in 80 more places") && strstr(out.data, "no known rule refuses it"));
    EXPECT(!strstr(out.data, "runs on"));
    text_deinit(&out);
    chip_report_free(r);
    EXPECT_FAIL(chip_check_refusal(m->functions, chip_get(CHIP_m1), 0, &err), PROPANE_ERR_UNSUPPORTED,
                "rule O2 refuses it on M1");
    EXPECT_OK(chip_check_refusal(m->functions, chip_get(CHIP_m4), 0, &err));
    mil_module_free(m);
}

/* Operations for the engine (relu, abs), for the CPU (tan), and for the engine again (add, tanh). */
static const char segmented[] =
    "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-version\", \"3505.4.1\"}})]\n{\n"
    "    func main<ios18>(tensor<fp16, [1, 4, 8, 32]> x) {\n"
    "        tensor<fp16, [1, 4, 8, 32]> a = relu(x = x)[name = string(\"a\")];\n"
    "        tensor<fp16, [1, 4, 8, 32]> b = tan(x = a)[name = string(\"b\")];\n"
    "        tensor<fp16, [1, 4, 8, 32]> side = abs(x = x)[name = string(\"side\")];\n"
    "        tensor<fp16, [1, 4, 8, 32]> c = add(x = b, y = side)[name = string(\"c\")];\n"
    "        tensor<fp16, [1, 4, 8, 32]> d = tanh(x = c)[name = string(\"d\")];\n"
    "    } -> (d);\n}\n";

TEST(segments_are_counted) {
    propane_error err = {0};
    const chip *m4 = chip_get(CHIP_m4);
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(segmented, sizeof segmented - 1, "segmented.mil", NULL, &m, &err));
    for (int p = 0; p < CHIP_PATH_COUNT; p++) {
        chip_report *r = new_report_on(0, (chip_path)p);
        EXPECT_OK(chip_check_module(r, m, &err));
        const chip_segments *s = chip_report_segments(r, m4);
        const bool coreml = p == CHIP_PATH_COREML;
        EXPECT(s->engine == (coreml ? 2 : 0) && s->cpu == (coreml ? 1 : 0) && s->switches == (coreml ? 2 : 0));
        EXPECT(s->moved == (coreml ? 1 : 0));
        EXPECT_TEXT(s->places, coreml ? "tan 'b', add 'c'" : "");
        /* one more call of the engine; moving three tensors of 2,048 bytes between CPU and engine costs almost
         * nothing */
        EXPECT_MSG(coreml ? s->ms > 0.01 && s->ms < 2 : s->ms == 0, "%g ms", s->ms);
        EXPECT(chip_report_worst(r) == (coreml ? CHIP_FALL : CHIP_WARN));
        chip_report_free(r);
    }
    mil_module_free(m);
}

/* A fallback costs time, but harm costs the result. So a warning of harm comes first, and other warnings come last. */
TEST(harm_is_printed_before_fallbacks) {
    propane_error err = {0};
    text out = {0};
    const chip *c = chip_get(CHIP_m4);
    chip_report *r = chip_report_create(&(chip_check_options){&c, 1, 0, 0, CHIP_PATH_COREML, false});
    EXPECT(r != NULL);
    EXPECT_OK(chip_check_file(r, "tests/chip/reports/fluidaudio700_atan2.mil", &err));
    chip_report_print(r, &(chip_print){false, 0}, &out);
    const char *harm = strstr(out.data, "warning N13:"), *fall = strstr(out.data, "falls back O1:");
    EXPECT_MSG(harm && fall && harm < fall, "%s", out.data);
    EXPECT_MSG(strstr(out.data, "m4: may fail by N13; falls back by "), "%s", out.data);
    EXPECT(chip_report_worst(r) == CHIP_FALL);
    for (int i = 0; i < chip_report_count(r); i++) {
        const chip_finding *f = chip_report_get(r, i);
        EXPECT_MSG(f->harm == (strcmp(f->limit->id, "N13") == 0), "%s", f->limit->id);
    }
    chip_report_free(r);
    text_deinit(&out);
}

TEST(a_lack_of_memory_is_an_error) {
    propane_error err = {0};
    mil_module *m = chain(MIL_OP_sin, 3);
    bool done = false;
    int failures = 0;
    for (uint64_t n = 1; !done && n < 1000; n++) {
        mem_fail_at(n);
        chip_report *r =
            chip_report_create(&(chip_check_options){all_chips(), CHIP_COUNT, 0, 0, CHIP_PATH_DIRECT, false});
        propane_status status = r ? chip_check_module(r, m, &err) : PROPANE_ERR_MEMORY;
        mem_fail_at(0);
        EXPECT(status == PROPANE_OK || status == PROPANE_ERR_MEMORY);
        EXPECT(status != PROPANE_OK || found(r, "O2"));
        done = status == PROPANE_OK;
        failures += !done;
        chip_report_free(r);
    }
    EXPECT(done && failures >= 5);
    mil_module_free(m);
}

/* ---- weight files ------------------------------------------------------------------------------------------------------- */

static void put(uint8_t *p, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
}

enum { FIRST = 64, SECOND = 192, BLOB_BYTES = 320 };

/* Two records of 32 fp16 elements each. */
static void make_blob(uint8_t b[BLOB_BYTES]) {
    memset(b, 0, BLOB_BYTES);
    put(b, 2, 4);
    put(b + 4, 2, 4);
    for (int at = FIRST; at <= SECOND; at += SECOND - FIRST) {
        put(b + at, 0xDEADBEEF, 4);
        put(b + at + 4, 1, 4);
        put(b + at + 8, 64, 8);
        put(b + at + 16, (uint64_t)at + 64, 8);
    }
}

typedef struct blob_edit {
    const char *id;
    int at[3], bytes[3];
    uint64_t value[3];
    int length; /* of the file; 0 means all */
} blob_edit;

static const blob_edit bad_blobs[] = {
    {"B1", {4}, {4}, {1}, 0},                   /* version 1 */
    {"B2", {FIRST + 16}, {8}, {FIRST + 72}, 0}, /* data at 136 */
    {"B3", {SECOND + 8}, {8}, {66}, 0},         /* two bytes beyond the end */
    {"B4", {FIRST + 8}, {8}, {63}, 0},          /* half an element */
    {"C37a", {0}, {4}, {1}, 0},
    {"C38", {FIRST + 8, FIRST + 16}, {8, 8}, {0x80000, 0}, 0},
};

static char *write_blob(const char *dir, const blob_edit *e) {
    propane_error err = {0};
    uint8_t bytes[BLOB_BYTES];
    make_blob(bytes);
    for (int i = 0; e && i < 3; i++) put(bytes + e->at[i], e->value[i], e->bytes[i]);
    text path = {0};
    text_printf(&path, "%s/weights.bin", dir);
    EXPECT(!path.failed);
    EXPECT_OK(file_write(path.data, bytes, e && e->length ? (size_t)e->length : BLOB_BYTES, &err));
    return path.data;
}

static void check_blob(const char *dir, const char *id, const blob_edit *e, bool bad) {
    propane_error err = {0};
    char *path = write_blob(dir, e);
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_file(r, path, &err));
    expect_found(r, id, bad, 0);
    mem_free(path);
}

static void check_reference(const char *dir, uint64_t offset, bool bad) {
    propane_error err = {0};
    char *blob = write_blob(dir, NULL);
    text path = {0}, program = {0};
    text_printf(&path, "%s/model.mil", dir);
    text_printf(&program,
                "program(1.3)\n[buildInfo = dict<string, string>({{\"coremlc-version\", \"3505.4.1\"}})]\n{\n"
                "    func main<ios18>(tensor<fp16, [1, 1, 1, 32]> x) {\n"
                "        tensor<fp16, [1, 1, 1, 32]> w = const()[name = string(\"w\"), val = tensor<fp16, [1, 1, 1, "
                "32]>(BLOBFILE("
                "path = string(\"@model_path/weights.bin\"), offset = uint64(%llu)))];\n"
                "        tensor<fp16, [1, 1, 1, 32]> y = add(x = x, y = w)[name = string(\"y\")];\n    } -> (y);\n}\n",
                (unsigned long long)offset);
    EXPECT(!path.failed && !program.failed);
    EXPECT_OK(file_write(path.data, program.data, program.length, &err));
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_file(r, path.data, &err));
    EXPECT_MSG(bad == (found(r, "L1") != NULL), "%s", err.text);
    const chip_finding *f = found(r, "C22");
    EXPECT(!f || (f->line == 5 && f->column > 60));
    expect_found(r, "C22", bad, 0);
    text_deinit(&path);
    text_deinit(&program);
    mem_free(blob);
}

TEST(each_rule_about_weight_files_has_its_cases) {
    char *dir = test_temp_dir();
    int rows = 0;
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        if (strcmp(chip_limit_scope(l), "blob") != 0) continue;
        rows++;
        if (strcmp(l->id, "C22") == 0) {
            check_reference(dir, 128, true);  /* the data's offset */
            check_reference(dir, 64, false);  /* the record's offset */
            check_reference(dir, 192, false); /* the second record's offset */
            continue;
        }
        const blob_edit *e = NULL;
        for (size_t k = 0; k < sizeof bad_blobs / sizeof bad_blobs[0]; k++)
            if (strcmp(bad_blobs[k].id, l->id) == 0) e = &bad_blobs[k];
        EXPECT_MSG(e, "row %s has no case", l->id);
        check_blob(dir, l->id, e, true);
        check_blob(dir, l->id, NULL, false);
    }
    EXPECT(rows >= 7);
    mem_free(dir);
}

/* Bytes that coremltools before 8.0 leaves in a record from byte 24 on, which mean nothing for fp16. No rule may
 * report them. */
TEST(bytes_without_a_meaning_are_no_fault) {
    propane_error err = {0};
    char *dir = test_temp_dir();
    static const blob_edit rest = {"B4", {FIRST + 24, FIRST + 32, SECOND + 24}, {8, 8, 8}, {140034545416667, 5, 9}, 0};
    char *path = write_blob(dir, &rest);
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_file(r, path, &err));
    expect_found(r, "B4", false, 0);
    mem_free(path);
    mem_free(dir);
}

/* A benchmark that writes these records concluded that only 512 channels compile; the size in its records is 2 x
 * 512 x 512. */
TEST(the_record_of_512_channels_is_named) {
    propane_error err = {0};
    char *dir = test_temp_dir();
    char *path = write_blob(dir, &bad_blobs[5]);
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_file(r, path, &err));
    const chip_finding *f = found(r, "C38");
    EXPECT(f && strstr(f->message, "offset 64") && strstr(f->message, "0x08") && strstr(f->message, "524288"));
    EXPECT(strstr(f->limit->sentence, "only 512 channels"));
    EXPECT_MSG(!found(r, "B3") && !found(r, "C37a"), "the record after it is still found, and nothing else is wrong");
    chip_report_free(r);
    mem_free(path);
    mem_free(dir);
}

TEST(unaligned_records_are_found) {
    propane_error err = {0};
    char *dir = test_temp_dir();
    uint8_t bytes[BLOB_BYTES];
    make_blob(bytes);
    put(bytes + FIRST + 8, 62, 8); /* the next record directly after 31 elements */
    memmove(bytes + SECOND - 2, bytes + SECOND, BLOB_BYTES - SECOND);
    text path = {0};
    text_printf(&path, "%s/weights.bin", dir);
    EXPECT_OK(file_write(path.data, bytes, BLOB_BYTES - 2, &err));
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_file(r, path.data, &err));
    EXPECT(found(r, "B2") && strstr(found(r, "B2")->message, "offset 190"));
    chip_report_free(r);
    text_deinit(&path);
    mem_free(dir);
}

/* ---- requests ----------------------------------------------------------------------------------------------------------- */

typedef struct request_case {
    const char *id;
    chip_surface in[3], out[2];
    int in_count, out_count, procedure;
} request_case;

/* Function main(a [1,768,1,16] fp32, b of the same type) -> (y, z), with 49,152 bytes each: the published case. */
#define GOOD_IN  {{"a", 49152, 0}, {"b", 49152, 0}}
#define GOOD_OUT {{"y", 49152, 0}, {"z", 49152, 0}}
static const request_case good_request = {"", GOOD_IN, GOOD_OUT, 2, 2, 0};
static const request_case bad_requests[] = {
    {"C11", {{"a", 49152, 0}, {"b", 49216, 0}}, GOOD_OUT, 2, 2, 0},
    {"C11", GOOD_IN, {{"y", 49216, 0}, {"z", 49152, 0}}, 2, 2, 0},
    {"C12b", {{"b", 49152, 0}, {"a", 49152, 0}}, GOOD_OUT, 2, 2, 0},
    {"C12b", GOOD_IN, {{"z", 49152, 0}, {"y", 49152, 0}}, 2, 2, 0},
    {"C13", {{"a", 49151, 0}, {"b", 49151, 0}}, GOOD_OUT, 2, 2, 0},
    {"C13", GOOD_IN, {{"y", 49151, 0}, {"z", 49151, 0}}, 2, 2, 0},
    {"C16", {{"a", 49152, 0}, {"b", 49152, 64}}, GOOD_OUT, 2, 2, 0},
    {"C16b", GOOD_IN, GOOD_OUT, 1, 2, 0},
    {"C16b", {{"a", 49152, 0}, {"b", 49152, 0}, {"c", 49152, 0}}, GOOD_OUT, 3, 2, 0},
    {"C16b", {{"a", 49152, 0}, {"a", 49152, 0}}, GOOD_OUT, 2, 2, 0},
    {"C17a", GOOD_IN, GOOD_OUT, 2, 2, 1},
    {"C17a", GOOD_IN, GOOD_OUT, 2, 2, -1},
};

static mil_module *two_by_two(void) {
    propane_error err = {0};
    mil_builder b;
    mil_module *m = mil_module_create("request");
    EXPECT(m != NULL);
    mil_build_begin(&b, m, "main", MIL_IOS18);
    mil_type type = mil_type_tensor(MIL_fp32, 4, (int64_t[]){1, 768, 1, 16});
    mil_value *x = mil_build_param(&b, "a", type), *y = mil_build_param(&b, "b", type);
    mil_value *sum = mil_build_binary(&b, MIL_OP_add, x, y), *product = mil_build_binary(&b, MIL_OP_mul, x, y);
    mil_build_result(&b, sum);
    mil_build_result(&b, product);
    EXPECT_OK(mil_build_end(&b, &err));
    EXPECT_OK(mil_rename(m->functions, sum, "y", &err));
    EXPECT_OK(mil_rename(m->functions, product, "z", &err));
    return m;
}

static chip_report *check_request(const mil_module *m, const request_case *c) {
    propane_error err = {0};
    chip_report *r = new_report(0);
    EXPECT_OK(chip_check_request(
        r, &(chip_request){m->functions, c->in, c->out, c->in_count, c->out_count, c->procedure, 1}, &err));
    return r;
}

TEST(each_rule_about_requests_has_its_cases) {
    mil_module *m = two_by_two();
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        if (strcmp(chip_limit_scope(l), "request") != 0) continue;
        int cases = 0;
        for (size_t k = 0; k < sizeof bad_requests / sizeof bad_requests[0]; k++)
            if (strcmp(bad_requests[k].id, l->id) == 0) {
                expect_found(check_request(m, &bad_requests[k]), l->id, true, 0);
                cases++;
            }
        EXPECT_MSG(cases > 0, "row %s has no case", l->id);
    }
    chip_report *r = check_request(m, &good_request);
    EXPECT_MSG(chip_report_count(r) == 0, "the good request: %s", chip_report_get(r, 0)->message);
    chip_report_free(r);
    mil_module_free(m);
}

TEST(surfaces_have_rows_of_64_bytes) {
    mil_type a = mil_type_tensor(MIL_fp32, 4, (int64_t[]){1, 768, 1, 1}),
             b = mil_type_tensor(MIL_fp16, 4, (int64_t[]){2, 3, 5, 33});
    mil_type c = mil_type_tensor(MIL_uint4, 2, (int64_t[]){3, 129}), d = mil_type_scalar(MIL_fp16);
    EXPECT(chip_surface_bytes(&a, 0) == 49152);
    EXPECT(chip_surface_bytes(&b, 0) == 2 * 3 * 5 * 128);
    EXPECT(chip_surface_bytes(&c, 0) == 3 * 128);
    EXPECT(chip_surface_bytes(&d, 0) == 64);
}

/* ---- processes ---------------------------------------------------------------------------------------------------------- */

typedef struct process_case {
    const char *id;
    chip_process bad, good;
} process_case;

static const process_case processes[] = {
    {"C1a", {.compiles = 120}, {.compiles = 119}},
    {"C1b", {.loaded = 129}, {.loaded = 128}},
    {"C1c", {.loaded = 116}, {.loaded = 115}},
    {"C2", {.weights_overwritten = true}, {.compiles = 1}},
    {"C3", {.since_failed_compile_s = 14.9}, {.since_failed_compile_s = 15}},
    {"C4", {.forked = true}, {.loaded = 1}},
    {"C5", {.weights_nil = true}, {.loaded = 1}},
    {"C6", {.text_as_string = true}, {.loaded = 1}},
    {"C9", {.compiles_while_running = true}, {.compiles = 1, .in_flight = 1}},
    {"C17b", {.in_flight = 128}, {.in_flight = 127}},
    {"C17c", {.same_model_in_flight = 2}, {.same_model_in_flight = 1, .in_flight = 2}},
    {"C39", {.compiles_through_mlmodel = true}, {.compiles = 1}},
    {"C55", {.evaluations = 100001}, {.evaluations = 100000}},
};

TEST(each_rule_about_processes_has_its_cases) {
    propane_error err = {0};
    for (int i = 0; i < chip_limit_count(); i++) {
        const chip_limit *l = chip_limit_get(i);
        if (strcmp(chip_limit_scope(l), "process") != 0) continue;
        const process_case *c = NULL;
        for (size_t k = 0; k < sizeof processes / sizeof processes[0]; k++)
            if (strcmp(processes[k].id, l->id) == 0) c = &processes[k];
        EXPECT_MSG(c, "row %s has no case", l->id);
        for (int bad = 0; bad < 2; bad++) {
            chip_report *r = new_report(2603);
            EXPECT_OK(chip_check_process(r, bad ? &c->bad : &c->good, &err));
            expect_found(r, l->id, bad, 2603);
        }
    }
}

SUITE("chip/check", T(each_row_says_what_who_and_what_to_do), T(disputed_rules_warn),
      T(each_figure_of_a_chip_has_a_source), T(chips_are_found_by_name), T(each_rule_about_programs_has_its_cases),
      T(what_works_is_not_found_fault_with), T(findings_say_where), T(rules_about_versions_of_the_system),
      T(many_findings_are_collected_and_counted), T(segments_are_counted), T(harm_is_printed_before_fallbacks),
      T(a_lack_of_memory_is_an_error), T(each_rule_about_weight_files_has_its_cases),
      T(the_record_of_512_channels_is_named), T(unaligned_records_are_found), T(bytes_without_a_meaning_are_no_fault),
      T(each_rule_about_requests_has_its_cases), T(surfaces_have_rows_of_64_bytes),
      T(each_rule_about_processes_has_its_cases))
