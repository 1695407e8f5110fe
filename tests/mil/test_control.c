/* SPDX-License-Identifier: MIT
 * Blocks, states, lists, and shapes as values: they parse, print text that reads back the same, verify, copy, and
 * compute what they should. Values that a block uses from around it are captured. Errors are refused with their
 * position.
 */
#include "core/base/memory.h"
#include "core/mil/build.h"
#include "core/mil/text/mil_text.h"
#include "core/pass/pass.h"
#include "support/test.h"

#define HEAD "program(1.3)\n{\n"

static mil_module *parse(const char *program) {
    propane_error err = {0};
    mil_module *m = NULL;
    EXPECT_OK(mil_parse(program, strlen(program), "t", NULL, &m, &err));
    EXPECT_OK(mil_verify(m, &err));
    return m;
}

/* Prints, reads and prints again: both texts must be equal, in both dialects. */
static void round_trip(const mil_module *m) {
    propane_error err = {0};
    for (int dialect = MIL_SHORT; dialect <= MIL_CANONICAL; dialect++) {
        text first = {0}, second = {0};
        mil_module *again = NULL;
        const mil_print_options options = {(mil_dialect)dialect, false};
        mil_print(&first, m, &options);
        EXPECT_OK(mil_parse(first.data, first.length, "again", NULL, &again, &err));
        mil_print(&second, again, &options);
        EXPECT_TEXT(second.data, first.data);
        mil_module_free(again);
        text_deinit(&first);
        text_deinit(&second);
    }
}

/* Runs the first function on concatenated input vectors; the results are concatenated likewise, with the states after
 * them. */
static void run(const mil_function *f, const double *given, double *out) {
    propane_error err = {0};
    arena *a = arena_create();
    mil_tensor inputs[8], *results = NULL;
    for (int i = 0; i < f->param_count; i++) {
        int64_t count = mil_type_count(&f->params[i]->type);
        inputs[i] = (mil_tensor){f->params[i]->type, ARENA_ARRAY(a, count, double)};
        memcpy(inputs[i].data, given, (size_t)count * sizeof *given);
        given += count;
    }
    EXPECT_OK(mil_eval_function(f, inputs, true, a, &results, &err));
    int total = f->result_count;
    for (int i = 0; i < f->param_count; i++) total += f->params[i]->type.container == MIL_STATE;
    for (int i = 0; i < total; i++) {
        int64_t count = mil_type_count(&results[i].type);
        memcpy(out, results[i].data, (size_t)count * sizeof *out);
        out += count;
    }
    arena_free(a);
}

/* Copies into another module, as the cpu driver does. */
static mil_module *copy(const mil_function *f) {
    propane_error err = {0};
    mil_module *m = mil_module_create("copy");
    mil_value **map = mem_array((size_t)f->value_count + 1, sizeof *map);
    mil_builder b;
    mil_build_begin(&b, m, f->name, f->opset);
    for (int i = 0; i < f->param_count; i++)
        map[f->params[i]->id] = mil_build_param(&b, f->params[i]->name, f->params[i]->type);
    for (const mil_op *op = f->first; op; op = op->next) mil_build_copy(&b, op, map);
    for (int i = 0; i < f->result_count; i++) mil_build_result(&b, map[f->results[i]->id]);
    EXPECT_OK(mil_build_end(&b, &err));
    mem_free(map);
    return m;
}

/* Checks everything that must hold for a program: text, copies and passes preserve its results. */
static void holds(const char *program, const double *given, const double *want, int count) {
    propane_error err = {0};
    mil_module *m = parse(program), *same = copy(m->functions);
    double got[16];
    round_trip(m);
    round_trip(same);
    run(m->functions, given, got);
    for (int i = 0; i < count; i++) EXPECT_MSG(got[i] == want[i], "%d: %g, not %g", i, got[i], want[i]);
    run(same->functions, given, got);
    for (int i = 0; i < count; i++) EXPECT_MSG(got[i] == want[i], "copy %d: %g, not %g", i, got[i], want[i]);
    EXPECT_OK(pass_run(same->functions, &pass_all, &err));
    EXPECT_OK(mil_verify(same, &err));
    run(same->functions, given, got);
    for (int i = 0; i < count; i++) EXPECT_MSG(got[i] == want[i], "passes %d: %g, not %g", i, got[i], want[i]);
    mil_module_free(m);
    mil_module_free(same);
}

static const char cond_program[] =
    HEAD "    func main<ios15>(tensor<fp32, [2]> x, bool p) {\n"
         "        fp32 two = const()[val = fp32(2)];\n"
         "        tensor<fp32, [2]> y = cond(pred = p)[name = string(\"pick\")] {\n"
         "            tensor<fp32, [2]> a = mul(x = x, y = two);\n"
         "        } -> (a), {\n"
         "            fp32 one = const()[val = fp32(1)];\n"
         "            tensor<fp32, [2]> a = add(x = x, y = one);\n" /* the same name as in the other block */
         "            tensor<fp32, [2]> b = add(x = a, y = two);\n"
         "        } -> (b);\n"
         "        tensor<fp32, [2]> z = sub(x = y, y = two);\n"
         "    } -> (z);\n}\n";

TEST(cond_takes_one_block) {
    holds(cond_program, (double[]){3, 4, 1}, (double[]){4, 6}, 2);
    holds(cond_program, (double[]){3, 4, 0}, (double[]){4, 5}, 2);
    mil_module *m = parse(cond_program);
    const mil_op *op = mil_in(m->functions->last, "x")->def;
    EXPECT(op->block_count == 2 && op->operands[mil_op_captured(op->info)].count == 1); /* x; two is a constant */
    EXPECT(op->blocks[0]->param_count == 1 && op->blocks[1]->captured == 1 && op->blocks[1]->owner == op);
    EXPECT(mil_captured(op, op->blocks[1], 0) == m->functions->params[0]);
    EXPECT_TEXT(op->label, "pick");
    mil_module_free(m);
}

/* Powers of two up to an outside limit, with a sum; a loop inside a loop. */
static const char loop_program[] =
    HEAD "    func main<ios15>(int32 limit, fp32 step) {\n"
         "        int32 i = const()[val = int32(1)];\n"
         "        fp32 s = const()[val = fp32(0)];\n"
         "        int32 n, fp32 sum = while_loop(loop_vars = (i, s))[name = string(\"l\")] (int32 i_x, fp32 s_x) {\n"
         "            bool more = less(x = i_x, y = limit);\n"
         "        } -> (more), (int32 i_x, fp32 s_x) {\n"
         "            int32 i2 = mul(x = i_x, y = int32(2));\n"
         "            int32 k = const()[val = int32(0)];\n"
         "            int32 k_out, fp32 s_in = while_loop(loop_vars = (k, s_x)) (int32 k_x, fp32 t_x) {\n"
         "                bool again = less(x = k_x, y = i_x);\n"
         "            } -> (again), (int32 k_x, fp32 t_x) {\n"
         "                int32 k1 = add(x = k_x, y = int32(1));\n"
         "                fp32 t1 = add(x = t_x, y = step);\n" /* from two levels up */
         "            } -> (k1, t1);\n"
         "        } -> (i2, s_in);\n"
         "        int32 n1 = add(x = n, y = i);\n"
         "        fp32 r = identity(x = sum);\n"
         "    } -> (n1, r);\n}\n";

TEST(loops_run_until_they_end) {
    holds(loop_program, (double[]){10, 0.5}, (double[]){17, 7.5}, 2); /* 1 + 2 + 4 + 8 steps */
    holds(loop_program, (double[]){1, 0.5}, (double[]){2, 0}, 2);
}

/* What converters write for x[i], x[:, i, 0] and a window that begins at i: the sizes are known although the counter is
 * not. */
static const char slices_program[] = HEAD
    "    func main<ios15>(tensor<fp32, [3, 4]> x, tensor<fp32, [2, 3, 2]> z) {\n"
    "        int32 i = const()[val = int32(0)];\n"
    "        tensor<int32, [1]> none = const()[val = tensor<int32, [1]>([0])];\n"
    "        tensor<fp32, [4]> s = const()[val = tensor<fp32, [4]>([0, 0, 0, 0])];\n"
    "        tensor<fp32, [2]> t = const()[val = tensor<fp32, [2]>([0, 0])];\n"
    "        int32 n, tensor<fp32, [4]> sum, tensor<fp32, [2]> two = while_loop(loop_vars = (i, s, t)) (int32 i1, "
    "tensor<fp32, [4]> s1, tensor<fp32, [2]> t1) {\n"
    "            bool more = less(x = i1, y = int32(2));\n"
    "        } -> (more), (int32 i2, tensor<fp32, [4]> s2, tensor<fp32, [2]> t2) {\n"
    "            int32 next = add(x = i2, y = int32(1));\n"
    "            tensor<int32, [1]> at = expand_dims(x = i2, axes = tensor<int32, [1]>([0]));\n"
    "            tensor<int32, [1]> to = expand_dims(x = next, axes = tensor<int32, [1]>([0]));\n"
    "            tensor<int32, [2]> begin = concat(values = (at, none), axis = int32(0), interleave = bool(false));\n"
    "            tensor<int32, [2]> end = concat(values = (to, none), axis = int32(0), interleave = bool(false));\n"
    "            tensor<fp32, [?]> row = slice_by_index(x = x, begin = begin, end = end, end_mask = "
    "tensor<bool, [2]>([false, true]), squeeze_mask = tensor<bool, [2]>([true, false]));\n"
    "            tensor<fp32, [4]> s3 = add(x = s2, y = row);\n"
    "            tensor<int32, [3]> begin3 = concat(values = (none, at, at), axis = int32(0), interleave = "
    "bool(false));\n"
    "            tensor<int32, [3]> end3 = concat(values = (none, to, to), axis = int32(0), interleave = "
    "bool(false));\n"
    "            tensor<fp32, [2]> column = slice_by_index(x = z, begin = begin3, end = end3, begin_mask = "
    "tensor<bool, [3]>([true, false, false]), end_mask = tensor<bool, [3]>([true, false, false]), squeeze_mask = "
    "tensor<bool, [3]>([false, true, true]));\n"
    "            tensor<fp32, [1, 2]> window = slice_by_size(x = x, begin = begin, size = tensor<int32, [2]>([1, "
    "2]));\n"
    "            tensor<fp32, [2]> flat = reshape(x = window, shape = tensor<int32, [1]>([2]));\n"
    "            tensor<fp32, [2]> both = add(x = column, y = flat);\n"
    "            tensor<fp32, [2]> t3 = add(x = t2, y = both);\n"
    "        } -> (next, s3, t3);\n    } -> (sum, two);\n}\n";

TEST(slices_follow_a_counter) {
    const double given[] = {1,          2,  3,  4,  5,  6,  7,  8,  9,  10,  11,  12,
                            /* z */ 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120};
    /* Results: z[:, 0, 0] + z[:, 1, 1] = 10 + 40, 70 + 100; x[0, :2] + x[1, :2] = 6, 8 */
    holds(slices_program, given, (double[]){6, 8, 10, 12, 56, 178}, 6);
}

static const char state_program[] =
    HEAD "    func main<ios18>(tensor<fp16, [2]> x, state<tensor<fp16, [2]>> acc) {\n"
         "        tensor<fp16, [2]> old = read_state(input = acc);\n"
         "        tensor<fp16, [2]> new = add(x = old, y = x);\n"
         "        write_state(data = new, input = acc)[name = string(\"w\")];\n"
         "        tensor<fp16, [2]> now = read_state(input = acc);\n"
         "        tensor<fp16, [2]> twice = add(x = now, y = x);\n"
         "        tensor<fp16, [2]> last = coreml_update_state(state = acc, value = twice);\n"
         "        tensor<fp16, [2]> y = sub(x = last, y = old);\n"
         "    } -> (y);\n}\n";

TEST(states_are_read_and_written_in_order) {
    holds(state_program, (double[]){1, 2, 10, 20}, (double[]){2, 4, 12, 24}, 4);
}

static const char list_program[] = HEAD
    "    func main<ios15>(tensor<fp32, [2]> x, int32 at) {\n"
    "        list<tensor<fp32, [2]>, 3> empty = make_list(init_length = int32(3), dynamic_length = false, elem_shape = "
    "(int32(2)), dtype = \"fp32\");\n"
    "        list<tensor<fp32, [2]>, ?> one = list_write(ls = empty, index = at, value = x);\n"
    "        int32 n = list_length(ls = one);\n"
    "        int32 i = const()[val = int32(0)];\n"
    "        int32 count, list<tensor<fp32, [2]>, 3> full = while_loop(loop_vars = (i, one)) "
    "(int32 c, list<tensor<fp32, [2]>, 3> l) {\n"
    "            bool more = less(x = c, y = int32(2));\n"
    "        } -> (more), (int32 c, list<tensor<fp32, [2]>, 3> l) {\n"
    "            tensor<fp32, [2]> v = list_read(ls = l, index = at);\n"
    "            tensor<fp32, [2]> w = add(x = v, y = x);\n"
    "            list<tensor<fp32, [2]>, 3> l1 = list_write(ls = l, index = at, value = w);\n"
    "            int32 c1 = add(x = c, y = int32(1));\n"
    "        } -> (c1, l1);\n"
    "        tensor<fp32, [2, 2]> some = list_gather(ls = full, indices = tensor<int32, [2]>([0, 1]));\n"
    "        list<tensor<fp32, [2]>, 3> put = list_scatter(ls = full, indices = tensor<int32, [2]>([2, 0]), value = "
    "some);\n"
    "        tensor<fp32, [2]> z = list_read(ls = put, index = int32(0));\n"
    "        int32 m = add(x = n, y = count);\n"
    "    } -> (some, z, m);\n}\n";

TEST(lists_hold_tensors) {
    holds(list_program, (double[]){1, 2, 1}, (double[]){0, 0, 3, 6, 3, 6, 5}, 7);
    holds(list_program, (double[]){1, 2, 0}, (double[]){3, 6, 0, 0, 0, 0, 5}, 7);
    propane_error err = {0};
    mil_module *m = parse(list_program);
    arena *a = arena_create();
    mil_tensor inputs[2] = {{m->functions->params[0]->type, (double[]){1, 2}},
                            {m->functions->params[1]->type, (double[]){3}}},
               *out;
    EXPECT_FAIL(mil_eval_function(m->functions, inputs, true, a, &out, &err), PROPANE_ERR_INVALID,
                "index 3 is outside the list, which has 3 elements");
    arena_free(a);
    mil_module_free(m);
}

TEST(shapes_are_known) {
    static const char program[] = HEAD "    func main<ios15>(tensor<fp32, [2, 3, 4]> x) {\n"
                                       "        tensor<int32, [3]> s = shape(x = x);\n"
                                       "        tensor<int32, [1]> b = slice_by_size(x = s, begin = [0], size = [1]);\n"
                                       "        tensor<int32, [1]> rest = const()[val = tensor<int32, [1]>([-1])];\n"
                                       "        tensor<int32, [2]> to = concat(values = (b, rest), axis = 0);\n"
                                       "        tensor<fp32, [?, 12]> y = reshape(x = x, shape = to);\n"
                                       "        int32 n = gather(x = s, indices = int32(1));\n"
                                       "        tensor<int32, [?]> s2 = shape(x = y);\n"
                                       "        int32 axis = sub(x = n, y = int32(2));\n"
                                       "        tensor<fp32, [2, 12]> z = softmax(x = y, axis = axis);\n"
                                       "    } -> (z, s2);\n}\n";
    propane_error err = {0};
    mil_module *m = parse(program);
    round_trip(m);
    EXPECT(m->functions->results[0]->type.dim[0] == 2);
    EXPECT_OK(pass_run(m->functions, &pass_all, &err));
    EXPECT_OK(mil_verify(m, &err));
    int computed = 0;
    for (const mil_op *op = m->functions->first; op; op = op->next) computed += op->info->code != MIL_OP_const;
    EXPECT_MSG(computed == 3, "%d ops are left", computed); /* reshape, softmax, and the shape that is a result */
    mil_module_free(m);
}

TEST(builder_makes_blocks) {
    propane_error err = {0};
    mil_module *m = mil_module_create("b");
    mil_builder b;
    mil_type scalar = mil_type_scalar(MIL_fp32);
    mil_build_begin(&b, m, "main", MIL_IOS15);
    mil_value *x = mil_build_param(&b, "x", scalar), *limit = mil_build_param(&b, "limit", scalar);
    mil_argument vars[] = {{"loop_vars", 1, &x}};
    mil_op *loop = mil_build_open(&b, MIL_OP_while_loop, vars, 1);
    mil_build_block(&b, loop);
    mil_value *in = mil_build_param(&b, "v", scalar);
    mil_build_result(&b, mil_build_binary(&b, MIL_OP_less, in, limit));
    mil_build_block_end(&b);
    mil_build_block(&b, loop);
    in = mil_build_param(&b, "v", scalar);
    mil_build_result(&b, mil_build_binary_scalar(&b, MIL_OP_mul, in, 3));
    mil_build_block_end(&b);
    EXPECT(mil_build_close(&b, loop, "grown") == loop);
    mil_build_result(&b, loop->results[0]);
    EXPECT_OK(mil_build_end(&b, &err));
    round_trip(m);
    double got[1];
    run(m->functions, (double[]){1, 50}, got);
    EXPECT(got[0] == 81);
    mil_module_free(m);
}

static void refused(const char *body, const char *part) {
    propane_error err = {0};
    mil_module *m = NULL;
    text program = {0};
    text_printf(&program,
                HEAD "    func main<ios18>(tensor<fp16, [2]> x, bool p, state<tensor<fp16, [2]>> s) {\n%s\n"
                     "    } -> (y);\n}\n",
                body);
    EXPECT_FAIL(mil_parse(program.data, program.length, "t", NULL, &m, &err), PROPANE_ERR_INVALID, part);
    text_deinit(&program);
}

TEST(wrong_programs_are_refused) {
    refused("tensor<fp16, [2]> y = cond(pred = p);", "expected a block in '{' and '}', found ';'");
    refused("tensor<fp16, [2]> y = cond(pred = p) {} -> (x);", "expected ',', found ';'");
    refused("tensor<fp16, [2]> y = cond(pred = p) {} -> (x), {} -> (p);",
            "result 0 is tensor<fp16, [2]> if true and bool if false");
    refused("tensor<fp16, [2]> y = cond(pred = p) (fp16 a) {} -> (x), {} -> (x);", "its blocks take no inputs");
    refused("tensor<fp16, [2]> y = cond(pred = p) {tensor<fp16, [2]> a = relu(x = x);} -> (a), {} -> (a);",
            "result 'a' is not defined");
    refused("tensor<fp16, [2]> y = cond(pred = p) {tensor<fp16, [2]> x = relu(x = x);} -> (x), {} -> (x);",
            "'x' is defined a second time");
    refused("tensor<fp16, [2]> y = while_loop(loop_vars = x) (tensor<fp16, [2]> a) {} -> (a), (tensor<fp16, [2]> a) {} "
            "-> (a);",
            "the condition must return a single bool");
    refused("tensor<fp16, [2]> y = while_loop(loop_vars = x) (tensor<fp16, [3]> a) {} -> (p), (tensor<fp16, [2]> a) {} "
            "-> (a);",
            "input 0 of the condition is tensor<fp16, [3]>, but the loop variable is tensor<fp16, [2]>");
    refused("tensor<fp16, [2]> y = while_loop(loop_vars = x) (tensor<fp16, [2]> a) {} -> (p), (tensor<fp16, [2]> a) {} "
            "-> (p);",
            "loop variable 0 begins as tensor<fp16, [2]> and becomes bool");
    refused("tensor<fp16, [2]> y = relu(x = s);", "x must be fp16 or fp32; s is state<tensor<fp16, [2]>>");
    refused("tensor<fp16, [2]> y = read_state(input = x);", "input must be a state");
    refused("write_state(input = s, data = p); tensor<fp16, [2]> y = relu(x = x);",
            "data is bool, but the state holds tensor<fp16, [2]>");
    refused("tensor<fp16, [2]> y = relu(x = x)[captured = x];", "relu has no argument 'captured'");
    refused("tensor<fp16, [2]> y = cond(pred = p, captured = x) {} -> (x), {} -> (x);", "cond has no argument");
    refused("list<fp16, 0> y = relu(x = x);", "a list cannot have length 0");
    refused("tensor<fp16, [2]> y = reshape(x = x, shape = tensor<int32, [?]>([2]));", "a dimension must be known here");
    refused("state<list<fp16, 2>> y = relu(x = x);", "unknown type 'list'");
    refused(
        "list<fp16, 2> y = make_list(init_length = int32(2), elem_shape = tensor<int32, [0]>([]), dtype = \"fp16\");",
        "result 'y' is a list");
}

TEST(depth_is_bounded) {
    propane_error err = {0};
    mil_module *m = NULL;
    text program = {0};
    text_append(&program, HEAD "    func main<ios18>(tensor<fp16, [2]> x, bool p) {\n");
    for (int i = 0; i < 100000; i++) text_append(&program, "fp16 y = cond(pred = p) {");
    EXPECT_FAIL(mil_parse(program.data, program.length, "t", NULL, &m, &err), PROPANE_ERR_INVALID,
                "more than 32 nested blocks");
    text_deinit(&program);
}

SUITE("mil/control", T(cond_takes_one_block), T(loops_run_until_they_end), T(slices_follow_a_counter),
      T(states_are_read_and_written_in_order), T(lists_hold_tensors), T(shapes_are_known), T(builder_makes_blocks),
      T(wrong_programs_are_refused), T(depth_is_bounded))
