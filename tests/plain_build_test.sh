#!/bin/sh
# With a C compiler and CMake alone the library builds, and what is left out is said. Other packages are hidden from CMake. Flags that
# would change bits are overridden: src/base/mem.h refuses them.
set -eu
root=$1 cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG_LIBDIR=/nowhere cmake -S "$root" -B "$dir" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS='-Ofast -funsafe-math-optimizations' \
    -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON -DDNNL_LIBRARY=DNNL-NOTFOUND -DDNNL_INCLUDE_DIR=DNNL-NOTFOUND >"$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
said() { # file, words...
    file=$1
    shift
    for words in "$@"; do
        grep -q "$words" "$file" || { cat "$file"; echo "not said: $words"; exit 1; }
    done
}
said "$dir/log" 'no tests, not found: cmocka and pkg-config (.*), Python 3 (' 'no MPI transport' 'no TCP transport' \
    'no trainer, not found: oneDNN 2.x or 3.x (.*), zlib (' 'no command, not found: jansson (.*), zlib ('
cmake -S "$root" -B "$dir/tests" -DCMAKE_C_COMPILER="$cc" -DTG_TESTS=ON -DTG_GFORTRAN=OFF -DTG_MPI=OFF -DTG_NET=OFF \
    -DTG_TRAIN=OFF >"$dir/tests.log" 2>&1 || { cat "$dir/tests.log"; exit 1; }
said "$dir/tests.log" 'no test of the Fortran example, not found: gfortran'
cmake --build "$dir" --target tg_base tg_strategy >"$dir/build" 2>&1 || { cat "$dir/build"; exit 1; }
cmake --build "$dir" --target help | grep -q telegrad_shared
