/* SPDX-License-Identifier: MIT
 * Recognises folders that hold programs. Private to src/core/mil/coreml/package*.c.
 */
#ifndef CORE_MIL_COREML_PACKAGE_FOLDER_H
#define CORE_MIL_COREML_PACKAGE_FOLDER_H

#include <stdbool.h>

bool package_folder_holds(const char *folder, const char *name);

#endif
