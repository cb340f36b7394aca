#!/bin/sh
# The installed library as its users meet it: pkg-config and find_package from C, MPI, Fortran.
#   install_test.sh BUILD_DIR [mpi] [net]
set -eu
build=$1 mpi= net=
shift
for part; do eval "$part=$part"; done
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -KILL $server 2>/dev/null; rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/usr" >/dev/null
lib=$(dirname "$(find "$dir/usr" -name telegrad.pc)")
export PKG_CONFIG_PATH="$lib" LD_LIBRARY_PATH="$(dirname "$lib")"
cd "$dir"

cc -std=c17 -Wall -Wextra -Werror "$root/examples/codec.c" $(pkg-config --cflags --libs telegrad) -o codec
./codec | grep -q '^40000 bytes became [0-9]*$'
echo "C by pkg-config: $(./codec)"

share=$dir/usr/share
for file in README.md docs/methods.md examples/reduce.c; do [ -s "$share/doc/telegrad/$file" ] || { echo "no $file"; exit 1; }; done
# What the README links to is there.
links=$(grep -o '](\([^)#:]*\)[)#]' "$share/doc/telegrad/README.md" | sed 's/^](//; s/[)#]$//')
[ -n "$links" ]
for file in $links; do [ -e "$share/doc/telegrad/$file" ] || { echo "README.md links to $file, which is not installed"; exit 1; }; done
if [ -x "$dir/usr/bin/telegrad" ]; then
    for command in train compare tune eval methods models data bench advise report; do
        grep -qi "^\.SH TELEGRAD $command" "$share/man/man1/telegrad.1" || { echo "the manual page lacks $command"; exit 1; }
    done
    for file in bash-completion/completions/telegrad zsh/site-functions/_telegrad; do
        [ -s "$share/$file" ] || { echo "no $file"; exit 1; }
    done
    if command -v bash >/dev/null; then
        bash -n "$share/bash-completion/completions/telegrad"
    fi
    if command -v zsh >/dev/null; then
        zsh -n "$share/zsh/site-functions/_telegrad"
    fi
    echo "share: docs, examples, manual page, completion for bash and zsh"
fi

# Each header alone, for the oldest languages that can read them. mpi.h includes MPI's, whose C++ part has warnings.
flags="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only $(pkg-config --cflags telegrad)"
for header in "$dir"/usr/include/telegrad/*.h; do
    name=telegrad/$(basename "$header")
    [ "$name" != telegrad/mpi.h ] || continue
    echo "#include <$name>" | cc -xc -std=c11 $flags -
    echo "#include <$name>" | c++ -xc++ -std=c++11 $flags -
done
echo "C and C++: headers compile"

cmake -S "$root/examples/find_package" -B fp -DCMAKE_PREFIX_PATH="$dir/usr" >/dev/null
cmake --build fp >/dev/null
./fp/codec | grep -q '^40000 bytes became [0-9]*$'
echo "C by find_package: $(./fp/codec)"
[ "$net" != net ] || [ -x fp/tcp_server ]
# Without what only other components need.
cmake -S "$root/examples/find_package" -B fp2 -DCMAKE_PREFIX_PATH="$dir/usr" -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON \
    -DCMAKE_DISABLE_FIND_PACKAGE_OpenSSL=ON >/dev/null
cmake --build fp2 >/dev/null
./fp2/codec | grep -q '^40000 bytes became [0-9]*$'
printf 'cmake_minimum_required(VERSION 3.20)\nproject(x C)\nfind_package(telegrad REQUIRED COMPONENTS net)\n' >CMakeLists.txt
if cmake -B fp3 -DCMAKE_PREFIX_PATH="$dir/usr" >fp3.log 2>&1; then echo "component net was found"; exit 1; fi
grep -q 'component "net": allowed: MPI, NET, CUDA' fp3.log

cc -std=c17 -Wall -Wextra -Werror "$root/examples/sockets.c" "$root/examples/socket_transport.c" "$root/examples/socket_mesh.c" \
    $(pkg-config --cflags --libs telegrad) -o sockets
port=$((20000 + $$ % 10000))
addresses="127.0.0.1:$port 127.0.0.1:$((port + 1)) 127.0.0.1:$((port + 2))"
for rank in 0 1 2; do ./sockets $rank $addresses >sockets.$rank & done
wait
cat sockets.?
[ "$(sed -n 's/^rank .: \(sum .*\), .* times fewer bytes$/\1/p' sockets.? | uniq -c | awk '{ print $1 }')" = 3 ] # the same bits

if [ "$net" = net ]; then
    cc -std=c17 -Wall -Wextra -Werror "$root/examples/tcp_mean.c" $(pkg-config --cflags --libs telegrad-net) -lm -o tcp
    for name in a b c; do ./tcp key $name.key >$name.pub; done
    cat b.pub c.pub >friends
    address=tcp://127.0.0.1:$((port + 3))
    ./tcp listen a.key $address friends 3 >tcp.a 2>/dev/null &
    for name in b c; do ./tcp join $name.key $address "$(cat a.pub)" >tcp.$name 2>/dev/null & done
    wait
    cat tcp.?
    [ "$(sed -n 's/^rank .* of 3: \(sum .*\), .* times fewer bytes$/\1/p' tcp.? | uniq -c | awk '{ print $1 }')" = 3 ] # the same bits

    cc -std=c17 -Wall -Wextra -Werror "$root/examples/tcp_server.c" $(pkg-config --cflags --libs telegrad-net) -lm -o tcp_server
    ./tcp_server serve tcp://127.0.0.1:$((port + 4)) >server.out 2>server.err &
    server=$!
    for i in $(seq 100); do [ -s server.out ] && break; sleep 0.1; done
    work=$(sed -n 's/^start workers: //p' server.out)
    $work >worker.1 & # two that finish, and two that end early
    first=$!
    $work >worker.2 &
    second=$!
    $work >worker.3 2>stopped &
    third=$!
    for i in $(seq 200); do [ -s worker.3 ] && break; sleep 0.1; done
    kill -STOP $server # a worker that waits for it ends at the second signal
    kill -INT $third
    sleep 0.5
    kill -INT $third
    ended=0
    wait $third || ended=$?
    kill -CONT $server
    cat stopped
    if ! grep -q '^step 1000:' worker.3; then # it may have reached the last step before
        [ $ended = 1 ]
        grep -q stopped stopped
    fi
    $work >worker.5 &
    fifth=$!
    for i in $(seq 200); do [ -s worker.5 ] && break; sleep 0.1; done
    kill -INT $fifth || true # it may have reached the last step
    for pid in $fifth $first $second; do wait $pid; done
    $work >worker.4 # the job is over
    ./tcp key other.key >/dev/null
    if $(echo "$work" | sed 's/worker\.key/other.key/') 2>refused; then exit 1; fi
    cat refused
    grep -q 'key' refused
    kill -INT $server
    wait $server
    server=
    cat worker.? server.out
    grep -q '^worker [0-9]* begins at step 1000 of 1000$' worker.4
    grep -q '^served up to step 999: [0-9]* answers, [0-9]* bytes received$' server.out
    for worker in worker.1 worker.2; do
        awk '/^step/ { last = $4 + 0 } /^step 1000:/ { done = 1 } END { exit !(done && last > 0 && last < 0.2) }' $worker
    done
else
    echo "SKIP TCP examples: built without OpenSSL"
fi

if command -v gfortran >/dev/null; then
    gfortran -std=f2008 -Wall "$root/examples/codec.f90" $(pkg-config --libs telegrad) -o codec_f
    ./codec_f | grep -q '^40000 bytes became [0-9]*$'
    echo "Fortran: $(./codec_f)"
else
    echo "SKIP Fortran: no gfortran"
fi
if [ "$mpi" = mpi ]; then
    mpicc=$(command -v mpicc.openmpi || command -v mpicc)
    mpirun=$(command -v mpirun.openmpi || command -v mpirun)
    $mpicc -std=c17 -Wall "$root/examples/reduce.c" $(pkg-config --cflags --libs telegrad-mpi) -o reduce
    $mpirun -n 3 --bind-to none ./reduce | tee reduce.txt
    grep -q 'times fewer bytes' reduce.txt
    $mpicc -std=c17 -Wall "$root/examples/session.c" $(pkg-config --cflags --libs telegrad-mpi) -o session
    $mpirun -n 3 --bind-to none ./session | tee session.txt
    [ "$(grep '^rank' session.txt | cut -d' ' -f4 | sort -u | wc -l)" = 1 ] # one hash on all ranks
    awk '/^step 100/ { first = $4 + 0 } /^step 300/ { last = $4 + 0 } END { exit !(last > 0 && last < 0.8 * first) }' session.txt
else
    echo "SKIP MPI example: built without MPI"
fi
