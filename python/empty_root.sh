#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests the wheel in an otherwise empty root. It has a Python interpreter, the system libraries of that interpreter and of NumPy (C and
# C++), the packages of the named environment, the tests and their data. It has no shell, no compiler and no other package.
#     python/empty_root.sh ENVIRONMENT          needs root; exits with 77 and the reason if that is not possible
set -u
cd "$(dirname "$0")/.." || exit 2
environment=$1 root=$(mktemp -d)
[ "$(id -u)" = 0 ] || { echo "an empty root needs chroot, which only root may do"; exit 77; }
python=$(readlink -f "$environment/bin/python")
trap 'umount "$root/proc" 2> /dev/null; rm -rf --one-file-system "$root"' EXIT
library=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')
mkdir -p "$root/usr/bin" "$root$library" "$root/tmp" "$root/dev" "$root/proc" "$root/home" "$root/site" "$root/repository/tests"
cp "$python" "$root/usr/bin/python"
find "$library" -mindepth 1 -maxdepth 1 -not -name '*-packages' -not -name test -exec cp -r {} "$root$library/" \;
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
cp -r "$packages/." "$root/site/"
loader=$(ldd "$python" | sed -nE 's/^[[:space:]]*(\/[^ ]+) .*/\1/p')
base=$(dirname "$(ldd "$python" | sed -nE 's/.*=> ([^ ]*libc\.so[^ ]*) .*/\1/p')")
{
    echo "$loader"
    find "$python" "$library/lib-dynload" -type f -exec ldd {} \; 2> /dev/null | sed -nE 's/.*=> ([^ ]+) .*/\1/p'
    # The libraries that every manylinux wheel may expect.
    for name in pthread.so.0 dl.so.2 rt.so.1 util.so.1 m.so.6 gcc_s.so.1 stdc++.so.6 z.so.1; do
        for folder in "$base" /usr"$base"; do ls "$folder/lib$name" 2> /dev/null; done
    done
} | sort -u | while read -r file; do
    mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"
done
cp -r python/tests python/pytest.ini "$root/home/"
cp -r include python "$root/repository/"
cp -r tests/data "$root/repository/tests/"
if ! mknod -m 666 "$root/dev/null" c 1 3 || ! mknod -m 666 "$root/dev/urandom" c 1 9 || ! mount -t proc proc "$root/proc"; then
    echo "an empty root cannot be made here"
    exit 77
fi
# One test uses Ctrl-C, which a shell's background job would ignore.
env -i HOME=/home PYTHONHOME="$(dirname "$(dirname "$library")")" PYTHONPATH=/site PROPANE_ROOT=/repository LC_ALL=C.UTF-8 PATH=/usr/bin \
    "$python" -S -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
os.chroot(sys.argv[1])
os.chdir("/home")
os.execv("/usr/bin/python", ["python", "-m", "pytest", "-c", "/home/pytest.ini", "--rootdir", "/home", "-q", "tests"])' "$root" || exit 1
echo "passes in an empty root: $(find "$root" -xdev -name '*.so*' -not -path "$root/site/*" -not -path '*lib-dynload*' | wc -l) libraries of the system"
