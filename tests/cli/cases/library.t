# The library as other programs link it: only propane_* is visible, in the archive and in the shared library. Both can be used
# outside the tree after make install, with pkg-config and CMake.
! nm pkg-config make cc
@ B=$(dirname "$(readlink -f "$(command -v propane)")"); echo "$B" > build; ls "$B"/libpropane.so.0 > /dev/null 2>&1 && nm -D --defined-only "$B/libpropane.so.0" | awk '{print $3}' | sort > shared; nm -g -P "$B/libpropane.a" 2> /dev/null | awk '$2 ~ /^[A-TV-Z]$/ {print $1}' | sed 's/^_//' | sort > static; [ -f shared ] || cp static shared
$ grep -vc '^propane_' shared static | grep -v ':0$'
= 1
$ cmp shared static && wc -l < static | awk '{print ($1 >= 40)}'
> 1
= 0
# Every declaration of the header is defined.
$ cat "$REPO"/include/propane/*.h | tr '\n' ' ' | grep -oE 'propane_[a-z0-9_]+\(' | tr -d '(' | sort -u | comm -23 - static
= 0
# The headers as C11 and as C++17, each by itself.
$ echo '#include "propane.h"' > h.c; for h in "$REPO"/include/propane/*.h; do h=$(basename $h); echo "#include \"propane/$h\"" > h_$h.c; cp h_$h.c h_$h.cc; done; cp h.c h.cc; cc -std=c11 -Wall -Wextra -pedantic -Werror -I"$REPO/include" -fsyntax-only h*.c
= 0
$ command -v c++ > /dev/null || exit 0; c++ -std=c++17 -Wall -Wextra -pedantic -Werror -I"$REPO/include" -fsyntax-only h*.cc
= 0
# A program that shares names with the library's internals links with either form, built as the library is.
@ nm "$(cat build)/libpropane.a" | grep -q __asan_init && echo -fsanitize=address,undefined > flags; nm "$(cat build)/libpropane.a" | grep -q __tsan_init && echo -fsanitize=thread > flags; touch flags
@ printf '%s\n' '#include <stdio.h>' '#include "propane.h"' 'int file_read(void); int arena_alloc(void); int json_load(void); int queue_init(void);' 'int file_read(void) { return 1; } int arena_alloc(void) { return 2; } int json_load(void) { return 3; } int queue_init(void) { return 4; }' 'int main(int argc, char **argv) {' 'propane_module *m; propane_error err; (void)argc;' 'if (propane_module_read(argv[1], &m, &err)) return puts(err.text), 1;' 'propane_module_free(m);' 'return printf("%s %d\n", propane_version(), file_read() + arena_alloc() + json_load() + queue_init()) < 0; }' > own.c
$ make -s -C "$REPO" BUILD="$(cat build)" PREFIX="$PWD/prefix" UNITS= install-files > install.log 2>&1 || cat install.log; ls prefix/lib | sed 's/\.so.*/.so/' | LC_ALL=C sort -u | xargs
> cmake libpropane-trace.so libpropane.a libpropane.so pkgconfig
= 0
$ : > kept; if command -v strip > /dev/null && command -v readelf > /dev/null; then for f in prefix/bin/propane prefix/lib/lib*; do readelf -S "$f" | grep debug_info > found && echo "$f" >> kept; done; fi; echo "with debugging information:" $(cat kept)
> with debugging information:
= 0
$ export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig; cc -std=c11 $(cat flags) own.c $(pkg-config --cflags --libs propane) -o own && LD_LIBRARY_PATH=$PWD/prefix/lib ./own "$REPO/examples/add.mil"
> 0.2.0 10
= 0
$ export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig; cc -std=c11 $(cat flags) own.c $(pkg-config --cflags propane) prefix/lib/libpropane.a $(pkg-config --static --libs propane | sed 's/-lpropane//') -o own && ./own "$REPO/examples/add.mil"
> 0.2.0 10
= 0
$ command -v cmake > /dev/null || { echo 0.2.0 10; exit 0; }; mkdir -p c && printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(own C)' 'find_package(propane 0.2 REQUIRED)' 'add_executable(own ../own.c)' 'target_link_libraries(own propane::propane)' > c/CMakeLists.txt && CFLAGS=$(cat flags) cmake -S c -B c/b -DCMAKE_PREFIX_PATH="$PWD/prefix" > cm.log 2>&1 && cmake --build c/b >> cm.log 2>&1 || cat cm.log; c/b/own "$REPO/examples/add.mil"
> 0.2.0 10
= 0
