/* SPDX-License-Identifier: MIT
 * The cpu driver under the conformance suite.
 */
#include "drivers/conformance.h"

int main(int argc, char **argv) {
    static const conformance_driver driver = {.title = "drivers/cpu", .uri = "cpu"};
    return conformance_main(&driver, argc, argv);
}
