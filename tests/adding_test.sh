#!/bin/sh
# What docs/adding-a-method.md says: a codec, a method, an exchange and a strategy are a file and a line each. They are added to a
# copy of the library, which then trains with them, and whose tests take them in.
set -eu
root=$1 cc=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp -r "$root/src" "$dir"
for name in "$root"/*; do
    case $name in */src | */build) ;; *) ln -s "$name" "$dir" ;; esac
done
cp "$root/tests/adding/codec_powers.c" "$dir/src/codec/quant/"
echo 'TG_CODEC(powers, 250)' >>"$dir/src/codec/codecs.def"
cp "$root/tests/adding/method_powers.c" "$dir/src/method/"
echo 'TG_METHOD(powers)' >>"$dir/src/method/methods.def"
cp "$root/tests/adding/exchange_relay.c" "$dir/src/exchange/"
echo 'TG_EXCHANGE(relay)' >>"$dir/src/exchange/exchanges.def"
cp "$root/tests/adding/strategy_half.c" "$dir/src/strategy/"
echo 'TG_STRATEGY(half)' >>"$dir/src/strategy/strategies.def"

{ cmake -S "$dir" -B "$dir/build" -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug -DTG_WERROR=ON -DTG_MPI=OFF -DTG_TRAIN=OFF &&
    cmake --build "$dir/build" -j 2 --target telegrad_static codec_test context_test finite_test method_test hostile_test; } >"$dir/log" 2>&1 ||
    { tail -n 60 "$dir/log"; exit 1; }
"$cc" -std=c17 -Wall -Wextra -Werror -I "$dir/include" "$root/tests/adding/added_test.c" "$dir/build/libtelegrad.a" -lm -pthread \
    -o "$dir/added_test"
"$dir/added_test"
for test in codec_test context_test finite_test method_test hostile_test; do # what loops over registries
    "$dir/build/$test" >"$dir/log" 2>&1 || { tail -n 60 "$dir/log"; echo "$test failed"; exit 1; }
done
