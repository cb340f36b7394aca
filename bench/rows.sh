# Read by the scripts beside it that train rows of a table: SCRIPT OUT_DIR [ROW...]
#   SEEDS="1 2 3"     (1) a run for each
#   PRECISION=bf16    telegrad's precision
# A run that was stopped goes on from its last checkpoint when the script is called again; one that is complete is left
# alone. One that fails is told of, and the next begins; one that is interrupted is the last.
set -eu
here=$(dirname "$0")
out=${1:?usage: $0 OUT_DIR [ROW...]}
shift
rows=$*
telegrad=${TELEGRAD:-$here/../build/release/telegrad}
mkdir -p "$out"

wanted() { # row
    case " ${rows:-$1} " in *" $1 "*) ;; *) return 1 ;; esac
}

# What was trained so far is in parts, FILE.000, FILE.001, ...
run_seed() { # seed, file, folder, options
    seed=$1 file=$2 folder=$3
    shift 3
    [ -z "$(ls -d "$folder"/step-*[0-9] 2>/dev/null)" ] || set -- "$@" --resume "$folder"
    rm -f "$file".*.tmp
    part=$(printf '%s.%03d' "$file" "$(ls "$file".[0-9][0-9][0-9] 2>/dev/null | wc -l)")
    "$telegrad" train "$@" --timeout 3600 ${PRECISION:+--precision $PRECISION} --seed "$seed" --save "$folder" --save-every 500 --out "$part" >/dev/null &&
        cat "$file".[0-9][0-9][0-9] >"$file.all" &&
        mv "$file.all" "$file" &&
        rm -r "$file".[0-9][0-9][0-9] "$folder"
}

run() { # row, options
    row=$1
    shift
    wanted "$row" || return 0
    for seed in ${SEEDS:-1}; do
        file=$out/$row-$seed.jsonl
        [ ! -f "$file" ] || continue
        status=0
        run_seed "$seed" "$file" "$out/$row-$seed" "$@" || status=$?
        [ $status = 0 ] || echo "$row, seed $seed: stopped" >&2
        case $status in 130 | 143) exit $status ;; esac
    done
}
