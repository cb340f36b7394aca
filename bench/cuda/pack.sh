#!/bin/sh
# Collects what bench/cuda/all.sh needs on a machine with a GPU where nothing can be built: a folder of stripped programs and libraries.
#
#     bench/cuda/pack.sh FOLDER [TESTS_DIR [BENCH_DIR]]
#
# There: cp FOLDER/_c.py python/telegrad/ && bench/cuda/all.sh OUT_DIR FOLDER FOLDER
set -eu
[ $# -ge 1 ] && [ $# -le 3 ] || { sed -n '4,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
cd "$(dirname "$0")/../.."
to=$1 tests=${2:-build/dev} bench=${3:-build/release}
mkdir -p "$to"
cp "$tests"/*_gpu_test "$bench"/bench_coders "$bench"/bench_reducers python/telegrad/_c.py "$to"
for part in '' -net -cuda; do # by the names that the loader looks for
    library=$(realpath "$bench/libtelegrad$part.so")
    cp "$library" "$to/libtelegrad$part.so"
    cp "$library" "$to/$(objdump -p "$library" | sed -n 's/^ *SONAME *//p')"
done
first=$(ls "$to"/*_gpu_test | head -n 1)
cp "$(ldd "$first" | sed -n 's/^.*libcmocka[^ ]* => \([^ ]*\).*/\1/p')" "$to" # which a machine without development packages lacks
strip "$to"/*_gpu_test "$to"/bench_* "$to"/*.so*
du -sh "$to"
