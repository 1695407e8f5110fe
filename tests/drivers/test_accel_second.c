/* SPDX-License-Identifier: MIT
 * The device registers for an M2: the conformance suite through tasks of H14 and the calls of ABI 2.
 */
#include "drivers/conformance.h"

int main(int argc, char **argv) {
    static const conformance_excuse excuses[] = {
        {"a_request_is_used_a_thousand_times_without_allocating", "the interpreter takes memory for each task"},
        {"values_of_small_programs", "fp32 values become fp16, which ends before the 1e6 of that test"},
    };
    static const conformance_driver driver = {
        .title = "drivers/accel_second", .uri = "registers:target=m2", .excuses = excuses, .excuse_count = 2};
    return conformance_main(&driver, argc, argv);
}
