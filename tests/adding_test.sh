#!/bin/sh
# What docs/adding-a-method.md says: a codec, a method, an exchange, a strategy and a transport are a file and a line each. They
# are added to a copy of the library, which then trains with them, and whose tests take them in.
set -eu
root=$1 cc=$2
rm -rf "$PWD"/adding.?????? # of a test that was killed
dir=$(mktemp -d "$PWD/adding.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cp -r "$root/src" "$root/command" "$dir"
for name in "$root"/*; do
    case $name in */src | */command | */build) ;; *) ln -s "$name" "$dir" ;; esac
done
cp "$root/tests/adding/codec_powers.c" "$dir/src/codec/quant/"
echo 'TG_CODEC(powers, 250)' >>"$dir/src/codec/codecs.def"
cp "$root/tests/adding/method_powers.c" "$dir/src/method/"
echo 'TG_METHOD(powers)' >>"$dir/src/method/methods.def"
cp "$root/tests/adding/exchange_relay.c" "$dir/src/exchange/"
echo 'TG_EXCHANGE(relay)' >>"$dir/src/exchange/exchanges.def"
cp "$root/tests/adding/strategy_half.c" "$dir/src/strategy/"
echo 'TG_STRATEGY(half)' >>"$dir/src/strategy/strategies.def"
cp "$root/tests/adding/files_job.c" "$dir/command/job/"
echo 'TG_TRANSPORT(files)' >>"$dir/command/job/transports.def"

# Options, and the place of the build folder, are those of the dev build: a compiler cache finds most of the objects there.
build=$dir/build/added
{ cmake -S "$dir" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=RelWithDebInfo "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g" -DTG_WERROR=ON \
    -DTG_MPI=OFF -DTG_CUDA=OFF -DTG_TRAIN=OFF -DTG_COMMAND=OFF &&
    cmake --build "$build" -j 2 --target telegrad_static \
        codec_test context_test finite_test session_finite_test method_test hostile_test; } \
    >"$dir/log" 2>&1 || { tail -n 60 "$dir/log"; exit 1; }
(cd "$dir" && "$cc" -std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror -I . -I include -I tests tests/adding/added_test.c \
    command/job/transports.c command/job/inproc_job.c command/job/files_job.c "$build/libtelegrad.a" -lm -pthread -o added_test)
for what in suite train; do
    mkdir "$dir/$what"
    FILES_FOLDER=$dir/$what FILES_SIZE=2 FILES_RANK=1 "$dir/added_test" $what &
    FILES_FOLDER=$dir/$what FILES_SIZE=2 FILES_RANK=0 "$dir/added_test" $what
    wait $!
done
for test in codec_test context_test finite_test session_finite_test method_test hostile_test; do # what loops over registries
    "$build/$test" >"$dir/log" 2>&1 || { tail -n 60 "$dir/log"; echo "$test failed"; exit 1; }
done
