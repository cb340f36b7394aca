#!/bin/sh
# With a C compiler and CMake alone the library builds, and what is left out is said. Other packages are hidden from CMake.
set -eu
root=$1 cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG_LIBDIR=/nowhere cmake -S "$root" -B "$dir" -DCMAKE_C_COMPILER="$cc" -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON \
    -DDNNL_LIBRARY=DNNL-NOTFOUND -DDNNL_INCLUDE_DIR=DNNL-NOTFOUND >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
for words in 'no tests, not found: cmocka' 'no MPI transport' 'no TCP transport' 'no trainer, not found: oneDNN' 'no command'; do
    grep -q "$words" "$dir/log" || { cat "$dir/log"; echo "not said: $words"; exit 1; }
done
cmake --build "$dir" --target tg_base tg_strategy >"$dir/build" 2>&1 || { cat "$dir/build"; exit 1; }
cmake --build "$dir" --target help | grep -q telegrad_shared
