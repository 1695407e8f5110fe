/* SPDX-License-Identifier: MIT
 * The null driver under the conformance suite.
 */
#include "drivers/conformance.h"

TEST(outputs_are_zeroed) {
    static const char text[] =
        CONFORMANCE_HEAD "    func main<ios18>(tensor<fp32, [3]> x) {\n"
                         "        tensor<fp32, [3]> y = add(x = x, y = x)[name = string(\"y\")];\n"
                         "    } -> (y);\n}\n";
    static const float x[3] = {1, 2, 3};
    float y[3] = {7, 7, 7};
    conformance_run(text, (const float *const[]){x}, y, 3);
    for (int i = 0; i < 3; i++) EXPECT(y[i] == 0);
}

int main(int argc, char **argv) {
    static const conformance_excuse excuses[] = {
        {"values_of_small_programs", "the null driver computes nothing: its outputs are zero"},
    };
    static const test_case more[] = {T(outputs_are_zeroed)};
    static const conformance_driver driver = {
        .title = "drivers/null", .uri = "null", .excuses = excuses, .excuse_count = 1, .more = more, .more_count = 1};
    return conformance_main(&driver, argc, argv);
}
