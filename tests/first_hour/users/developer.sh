# SPDX-License-Identifier: MIT
# Builds programs against the installed files: pkg-config, the archive, CMake, C++.
cp "$repo"/examples/run_mil.c "$repo"/examples/add.mil "$repo"/examples/library/*.c "$repo"/examples/library/*.cc "$work/"
for example in run_mil gradient train_text; do
    step "developer: $example.c" "cc -std=c11 $example.c \$(pkg-config --cflags --libs propane) -lm -o $example"
done
step 'developer: runs one' './run_mil add.mil' && step 'developer: trains' './train_text other.txt trained && ls trained'
step 'developer: the archive' 'cc -std=c11 train_text.c $(pkg-config --cflags propane) $(pkg-config --variable=libdir propane)/libpropane.a $(pkg-config --static --libs propane) -o static &&
    LD_LIBRARY_PATH= ./static other.txt static-run && cmp trained/model.safetensors static-run/model.safetensors'
step 'developer: CMake' 'command -v cmake > /dev/null || { echo "no cmake"; exit 77; }
    printf "cmake_minimum_required(VERSION 3.16)\nproject(app C)\nfind_package(propane 0.1 REQUIRED)\nadd_executable(app gradient.c)\ntarget_link_libraries(app propane::propane m)\n" > CMakeLists.txt &&
    cmake -S . -B out -DCMAKE_PREFIX_PATH="$PREFIX" > cmake.log && cmake --build out > build.log && ./out/app'
step 'developer: C++' 'command -v c++ > /dev/null || { echo "no C++ compiler"; exit 77; }
    for f in *.cc; do c++ -std=c++17 $f $(pkg-config --cflags --libs propane) -o cxx || exit 1; done'
cat > "$work/wrong.c" << 'EOF'
#include <propane.h>
#include <stdio.h>
int main(void) {
    propane_error err = {0};
    propane_module *m = NULL;
    propane_sampling s = {0};
    propane_sampling_default(&s);
    return propane_module_read("nothing.mil", &m, &err) == PROPANE_OK || puts(err.text) < 0 || m || propane_sampling_check(&s, &err) == PROPANE_OK || puts(err.text) < 0;
}
EOF
step 'developer: errors are sentences' 'cc -std=c11 wrong.c $(pkg-config --cflags --libs propane) -o wrong && ./wrong | tee said && grep -q nothing.mil said'
