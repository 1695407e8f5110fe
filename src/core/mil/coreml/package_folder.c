/* SPDX-License-Identifier: MIT
 * Owns the recognition of folders that hold a program, by the files in them.
 */
#include "core/mil/coreml/package_folder.h"

#include "core/base/file.h"
#include "core/base/text.h"
#include "core/mil/coreml/package.h"

bool package_folder_holds(const char *folder, const char *name) {
    text full = {0};
    text_printf(&full, "%s/%s", folder, name);
    bool there = !full.failed && file_exists(full.data);
    text_deinit(&full);
    return there;
}

bool mil_is_program_folder(const char *path) {
    return file_is_dir(path) &&
           (package_folder_holds(path, "Manifest.json") || package_folder_holds(path, "model.mil") ||
            package_folder_holds(path, "coremldata.bin"));
}
