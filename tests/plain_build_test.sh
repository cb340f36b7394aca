#!/bin/sh
# With a C compiler and CMake alone the library builds, and what is left out is said. Other packages are hidden from CMake. Flags that
# would change bits are overridden: src/base/mem.h refuses them.
set -eu
root=$1 cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
PKG_CONFIG_LIBDIR=/nowhere cmake -S "$root" -B "$dir" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS='-Ofast -funsafe-math-optimizations' \
    -DCMAKE_INSTALL_LIBDIR=/l/lib64 -DCMAKE_INSTALL_INCLUDEDIR=/i -DCMAKE_DISABLE_FIND_PACKAGE_PkgConfig=ON \
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
said "$dir/telegrad.pc" '^libdir=/l/lib64$' '^includedir=/i$'
cmake -S "$root" -B "$dir/tests" -DCMAKE_C_COMPILER="$cc" -DTG_TESTS=ON -DTG_GFORTRAN=OFF -DTG_MPI=OFF -DTG_NET=OFF \
    -DTG_TRAIN=OFF >"$dir/tests.log" 2>&1 || { cat "$dir/tests.log"; exit 1; }
said "$dir/tests.log" 'no test of the Fortran example, not found: gfortran'
cmake --build "$dir" --target tg_base tg_strategy >"$dir/build" 2>&1 || { cat "$dir/build"; exit 1; }
cmake --build "$dir" --target help | grep -q telegrad_shared

# What nvcc reads from the environment. No toolkit is needed to refuse it.
for flags in NVCC_APPEND_FLAGS=--use_fast_math 'NVCC_PREPEND_FLAGS=-lineinfo -ftz=true' 'NVCC_APPEND_FLAGS=-fmad true' \
    NVCC_APPEND_FLAGS=--prec-div=false; do
    ! env "$flags" cmake -S "$root" -B "$dir/cuda" -DCMAKE_C_COMPILER="$cc" -DTG_CUDA=ON -DTG_NVCC=/usr/bin/true \
        -DTG_CUDA_INCLUDE=/i -DTG_CUDART=/l/libcudart_static.a -DTG_MPI=OFF -DTG_NET=OFF -DTG_TRAIN=OFF >"$dir/cuda.log" 2>&1 ||
        { echo "not refused: $flags"; exit 1; }
    said "$dir/cuda.log" "${flags%%=*}=.*it would"
done

# In another project it has the names that find_package gives, and no tests.
mkdir "$dir/host"
cat >"$dir/host/CMakeLists.txt" <<TEXT
cmake_minimum_required(VERSION 3.20)
project(host C)
add_subdirectory("$root" telegrad)
add_executable(codec "$root/examples/codec.c")
target_link_libraries(codec PRIVATE telegrad::shared)
if(TARGET codec_test)
    message(FATAL_ERROR "tests")
endif()
TEXT
cmake -S "$dir/host" -B "$dir/host/build" -DCMAKE_C_COMPILER="$cc" -DTG_MPI=OFF -DTG_NET=OFF -DTG_CUDA=OFF -DTG_TRAIN=OFF -DTG_COMMAND=OFF \
    >"$dir/host.log" 2>&1 || { cat "$dir/host.log"; exit 1; }
