# The examples that need no training: built with the library, and again outside the tree after make install.
! make pkg-config cc part:images
@ B=$(dirname "$(readlink -f "$(command -v propane)")")/examples/library; echo "$B" > at; cp "$REPO/fuzz/corpus/package/classifier.mlmodel" "$REPO/fuzz/corpus/image/rgb.jpg" .
# A derivative, compared with finite differences.
$ $(cat at)/gradient
>~ d_w?0? = *, by differences *
>~ largest difference *e-0*
= 0
# A classifier, with an image of another size.
$ $(cat at)/classify classifier.mlmodel rgb.jpg
>~ * %  *
= 0
$ $(cat at)/classify classifier.mlmodel
2> usage: classify MODEL PICTURE
= 2
$ $(cat at)/classify "$REPO/examples/add.mil" rgb.jpg
2~ classify: *
= 1
# Rules and costs of two chips.
$ $(cat at)/check_program "$REPO/examples/add.mil" m1,m4
>~ m1: 0 refusals, * warnings
>~ m4, main: * ms (* to *), * mJ, estimated
= 0
$ $(cat at)/check_program "$REPO/examples/add.mil" m99
2~ check_program: *m99*
= 1
# Two successive runs under one gate, on the simulator and on the cpu.
$ $(cat at)/events "$REPO/examples/add.mil"
>~ queued; the device is at 0
>~ the device is at 2
>~ run 2: * ms simulated
= 0
? part:lm
$ $(cat at)/events "$REPO/examples/add.mil" cpu | head -2
> queued; the device is at 0
> the device is at 2
= 0
# Streamed text, from C++: the same as the command's.
? part:lm
@ awk 'BEGIN{for(i=0;i<300;i++) print "line", i*i%97, "of", i%7}' > text; propane tokenize text --vocab 280 --out v.json --tokens ids > log; propane train --data ids --tokenizer v.json --layers 1 --width 16 --heads 2 --context 32 --batch 2 --steps 5 --run m > log
$ [ -x "$(cat at)/stream" ] || { echo same; exit 0; }; propane generate m --prompt 'line 1' --count 12 --temperature 0 > want; { printf 'line 1'; $(cat at)/stream m 'line 1' 12; } | tee got | sed '$d' | cmp - want && echo same
> same
= 0
$ [ -x "$(cat at)/stream" ] || { echo 'stream: no compiler of C++' >&2; exit 1; }; $(cat at)/stream nowhere ab
2~ stream: *
= 1
# Outside the tree, with pkg-config and with CMake.
@ nm "$(dirname "$(cat at)")/../libpropane.a" | grep -q __asan_init && echo -fsanitize=address,undefined > flags; nm "$(dirname "$(cat at)")/../libpropane.a" | grep -q __tsan_init && echo -fsanitize=thread > flags; touch flags; make -s -C "$REPO" BUILD="$(dirname "$(dirname "$(cat at)")")" PREFIX="$PWD/prefix" UNITS= install-files > install.log 2>&1 || cat install.log; cp -r "$REPO/examples/library" outside
$ export PKG_CONFIG_PATH=$PWD/prefix/lib/pkgconfig; for f in outside/*.c; do cc -std=c11 -Wall -Wextra -pedantic -Werror $(cat flags) "$f" $(pkg-config --cflags --libs propane) -lm -o "${f%.c}" || exit 1; done; LD_LIBRARY_PATH=$PWD/prefix/lib outside/gradient | tail -1
>~ largest difference *e-0*
= 0
$ command -v cmake > /dev/null && command -v c++ > /dev/null || { echo 'd_w[0] = none'; exit 0; }; { printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(outside C CXX)' 'set(CMAKE_CXX_STANDARD 17)' 'find_package(propane 0.1 REQUIRED)'; for f in gradient.c stream.cc; do printf 'add_executable(%s %s)\ntarget_link_libraries(%s propane::propane m)\n' "${f%.*}" "$f" "${f%.*}"; done; } > outside/CMakeLists.txt; CFLAGS=$(cat flags) CXXFLAGS=$(cat flags) cmake -S outside -B made -DCMAKE_PREFIX_PATH="$PWD/prefix" > cm.log 2>&1 && cmake --build made >> cm.log 2>&1 || cat cm.log; made/stream > /dev/null 2>&1; [ $? = 2 ] && made/gradient
>~ d_w?0? = *
= 0
