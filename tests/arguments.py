#!/usr/bin/env python3
"""Write a C program that calls every function of the public headers with arguments that make no sense.

    arguments.py OUTPUT.c FOLDER [mpi|net]  of the headers in the folder: all but cuda.h, mpi.h and net.h, or this one

Each function is called with valid arguments (which must succeed: else the other calls would prove nothing), with each
pointer NULL in turn, with each structure's struct_size 0, and with enums, numbers and counts outside what they can be.
Valid arguments come from arguments.h, and arguments_try.h tries the calls. A function with an argument of a type that
is not known here is an error, so a new function is covered, or has to be made so."""
import pathlib
import re
import sys

# A valid argument by its type; by (function, argument) where that is not enough.
VALID = {
    "bool": "true", "double": "0.5", "float": "0.5f", "int": "1", "int64_t": "1", "size_t": "ARG_N", "uint32_t": "0",
    "uint64_t": "1", "unsigned": "1",
    "tg_status": "TG_E_IO", "tg_log_level": "TG_LOG_INFO", "tg_trace_row": "TG_ROW_COMPUTE", "tg_kind": "TG_KIND_CODEC", "tg_dtype": "TG_BF16",
    "tg_duration": "((tg_duration){1, false})", "MPI_Comm": "MPI_COMM_WORLD",
    "const char *": '"text"', "void *": "arg_bytes()", "const void *": "arg_bytes()",
    "float *": "arg_floats()", "const float *": "arg_floats()", "float *const *": "arg_vectors()",
    "uint32_t *": "(uint32_t *)arg_bytes()", "const uint32_t *": "(const uint32_t *)arg_bytes()",
    "size_t *": "(size_t *)arg_bytes()", "uint64_t *": "(uint64_t *)arg_bytes()", "bool *": "(bool *)arg_bytes()",
    "double *": "(double *)arg_bytes()", "int *": "(int *)arg_bytes()", "int64_t *": "(int64_t *)arg_bytes()", "const int *": "arg_nodes()",
    "const void *const *": "arg_memories()", "const char **": "(const char **)arg_bytes()", "const void **": "(const void **)arg_bytes()",
    "tg_array *": "arg_array()", "const tg_array *": "arg_array()",
    "const tg_device_ops *": "arg_device_ops()",
    "const tg_rng_key *": "arg_key()", "const tg_clock *": "tg_clock_monotonic()",
    "tg_transport *": "arg_transport()", "tg_transport **": "(tg_transport **)arg_bytes()",
    "tg_codec *": "arg_codec()", "const tg_codec *": "arg_codec()", "tg_codec **": "(tg_codec **)arg_bytes()",
    "const tg_encode_context *": "arg_context()",
    "const tg_entry *const *": "arg_entries()", "tg_spec *": "arg_spec()", "const tg_spec *": "arg_spec()",
    "tg_spec **": "(tg_spec **)arg_bytes()",
    "tg_optimizer *": "arg_optimizer()", "const tg_optimizer *": "arg_optimizer()",
    "tg_optimizer **": "(tg_optimizer **)arg_bytes()", "const tg_update *": "arg_update()",
    "tg_lr_schedule *": "arg_schedule()", "const tg_lr_schedule *": "arg_schedule()",
    "tg_lr_schedule **": "(tg_lr_schedule **)arg_bytes()",
    "FILE *": "stderr", "tg_trace *": "arg_trace()", "const tg_trace *": "arg_trace()", "tg_trace **": "(tg_trace **)arg_bytes()",
    "tg_reducer *": "arg_reducer()", "const tg_reducer *": "arg_reducer()", "tg_reducer **": "(tg_reducer **)arg_bytes()",
    "const tg_reducer_config *": "arg_reducer_config()", "tg_reducer_slot *": "arg_reducer_slot()",
    "tg_server *": "arg_server()", "const tg_server *": "arg_server()", "tg_server **": "(tg_server **)arg_bytes()",
    "const tg_server_config *": "arg_server_config()", "tg_server_stats *": "arg_server_stats()",
    "tg_session *": "arg_session()", "const tg_session *": "arg_session()", "tg_session **": "(tg_session **)arg_bytes()",
    "const tg_session_config *": "arg_session_config()", "const tg_tensor *": "arg_tensor()",
    "tg_turn *": "arg_turn()",
    "tg_resumed *": "arg_resumed()", "tg_step_info *": "arg_info()", "tg_bucket_cost *": "arg_costs()", "const tg_bucket_cost *": "arg_costs()",
    "tg_simulation *": "arg_simulation()", "const tg_simulation *": "arg_simulation()", "tg_simulation **": "(tg_simulation **)arg_bytes()",
    "const tg_sim_tensor *": "arg_sim_tensor()", "const tg_sim_run *": "arg_sim_run()",
    "tg_sim_end *": "arg_sim_end()", "tg_sim_exchange *": "arg_sim_exchange()",
    "const tg_link *": "arg_link()", "tg_link *": "(tg_link *)arg_bytes()",
    "tg_weights *": "arg_weights()", "const tg_weights *": "arg_weights()", "tg_weights **": "(tg_weights **)arg_bytes()",
    "const tg_weights_tensor *": "arg_weights_tensor()",
    "tg_nearest *": "arg_nearest()", "tg_newfile *": "arg_newfile()", "const tg_newfile *": "arg_newfile()",
    "tg_newfile **": "(tg_newfile **)arg_bytes()", "tg_readable": "TG_READ_REGULAR", "char *": "(char *)arg_bytes()",
    "tg_clock **": "(tg_clock **)arg_bytes()", "tg_clock_thread **": "(tg_clock_thread **)arg_bytes()",
    "tg_clock_thread *": "arg_thread()", "tg_clock *": "arg_clock()",
    "tg_key_pair *": "arg_pair()", "const tg_key_pair *": "arg_pair()", "tg_key_pair **": "(tg_key_pair **)arg_bytes()",
    "tg_keys *": "arg_keys()", "const tg_keys *": "arg_keys()", "tg_keys **": "(tg_keys **)arg_bytes()",
    "tg_net *": "arg_net()", "const tg_net *": "arg_net()", "tg_net **": "(tg_net **)arg_bytes()",
    "const tg_net_config *": "arg_net_config()", "tg_net_peer_info *": "arg_net_peer_info()",
    "const tg_net_serve_config *": "arg_net_serve_config()", "const tg_net_attach_config *": "arg_net_attach_config()",
}
THIS = {
    ("tg_log_set", "fn"): "arg_log", ("tg_reducer_start", "on_done"): "arg_on_done",
    ("tg_reducer_start_as", "on_done"): "arg_on_done", ("tg_reducer_start_array", "on_done"): "arg_on_done",
    ("tg_reducer_slot_get", "r"): "arg_reducer_topk()", ("tg_reducer_slot_get", "i"): "0",
    ("tg_reducer_undo", "r"): "arg_reducer_done()",
    ("tg_session_plan", "each"): "arg_each_tensor",
    ("tg_server_mode_normal", "mode"): '"sync"', ("tg_server_mode_normal", "room"): "64",
    ("tg_spec_parse", "text"): '"topk"', ("tg_spec_parse", "count"): "arg_entry_count()",
    ("tg_spec_given", "key"): '"density"', ("tg_spec_has", "key"): '"density"', ("tg_spec_real", "key"): '"density"',
    ("tg_trace_write", "path"): 'arg_path("trace.json")',
    ("tg_codec_create", "spec"): '"topk:density=0.5"', ("tg_codec_encode", "dst_cap"): "4096",
    ("tg_frame_decode", "frame"): "arg_frame_bytes()", ("tg_frame_decode", "len"): "arg_frame_len()",
    ("tg_frame_decode_add", "frame"): "arg_frame_bytes()", ("tg_frame_decode_add", "len"): "arg_frame_len()",
    ("tg_mxnet_2bit_decode_add", "len"): "tg_mxnet_2bit_bytes(ARG_N)", ("tg_strom_decode_add", "count"): "1",
    ("tg_optimizer_create", "spec"): '"sgd:lr=0.1"', ("tg_optimizer_slot_name", "slot"): "0",
    ("tg_lr_schedule_create", "spec"): '"constant"', ("tg_reducer_create", "method"): '"dense"',
    ("tg_registry_parse", "text"): '"topk"', ("tg_registry_method_card", "method"): '"topk"',
    ("tg_registry_strategy_method", "strategy"): '"ssgd"', ("tg_registry_rate_hint", "name"): '"signsgd"',
    ("tg_registry_default_strategy", "rules"): '(const char *const[]){"*=topk"}', ("tg_registry_default_strategy", "nrules"): "1",
    ("tg_server_create", "transport"): "arg_one_of_two(1)", ("tg_transport_worker", "inner"): "arg_one_of_two(0)",
    ("tg_session_add", "s"): "arg_session_empty()", ("tg_session_begin", "s"): "arg_session_new()",
    ("tg_session_load", "s"): "arg_session_new()", ("tg_session_load", "dir"): "arg_dir",
    ("tg_session_load_memory", "s"): "arg_session_new()", ("tg_session_load_memory", "bytes"): "arg_memory(&(size_t){0})",
    ("tg_session_take_memory", "s"): "arg_session_new()", ("tg_session_take_memory", "bytes"): "arg_memories()",
    ("tg_session_take_memory", "len"): "(size_t[]){arg_memory_len()}", ("tg_session_take_memory", "ranks"): "1",
    ("tg_session_load_memory", "len"): "arg_memory_len()", ("tg_session_deliver", "s"): "arg_session_external()",
    ("tg_session_gradient", "s"): "arg_session_external()",
    ("tg_session_save", "dir"): 'arg_path("saved")',
    ("tg_session_save_final", "dir"): "arg_dir",
    ("tg_session_save_weights", "path"): 'arg_path("weights")',
    ("tg_session_step", "s"): "arg_session_ready()", ("tg_session_eval_end", "s"): "arg_session_evaluating()",
    ("tg_session_set_costs", "count"): "1", ("tg_session_measure", "room"): "1",
    ("tg_simulation_create", "ntensors"): "1", ("tg_simulation_measure", "room"): "1",
    ("tg_simulation_set_costs", "count"): "1",
    ("tg_transport_inproc", "t_out"): "(tg_transport **)arg_bytes()", ("tg_link_parse", "text"): '"20mbit,10ms"',
    ("tg_transport_shaped_links", "links"): "arg_link()", ("tg_transport_faulty", "spec"): '"fault:seed=2"',
    ("tg_weights_open", "path"): "arg_weights_path()", ("tg_weights_open_newest", "dir"): "arg_dir",
    ("tg_weights_open_saved", "dir"): "arg_dir",
    ("tg_weights_read", "count"): "1", ("tg_weights_metadata", "name"): '"format"',
    ("tg_clock_thread_start", "run"): "arg_run", ("tg_alloc", "ptr_p"): "arg_bytes()",
    ("tg_newfile_open", "path"): 'arg_path("new")', ("tg_newfile_open_growing", "path"): 'arg_path("growing")',
    ("tg_newfile_check", "path"): 'arg_path("new")', ("tg_newfile_check_growing", "path"): 'arg_path("growing")',
    ("tg_stream_open", "fd"): "arg_fd()", ("tg_rate_parse", "len"): "4", ("tg_time_parse", "len"): "4",
    ("tg_bytes_parse", "len"): "4", ("tg_nearest_offer", "len"): "4", ("tg_utf8_decode", "len"): "4",
    ("tg_key_load", "path"): 'arg_file("load.key", NULL)', ("tg_key_save", "path"): 'arg_path("save.key")',
    ("tg_key_fingerprint", "key_text"): "arg_key_text()", ("tg_keys_load", "path"): 'arg_file("keys", arg_key_text())',
    ("tg_keys_parse", "text"): "arg_key_text()", ("tg_net_peer", "rank"): "0",
    ("tg_net_allow", "net"): "arg_net_with_key()",
}
# Functions that do not succeed with these, and what they say.
SAYS = {"tg_fail": "TG_E_IO", "tg_transport_mpi": "TG_E_STATE", "tg_transport_mpi_nodes": "TG_E_STATE",
        "tg_net_serve": "TG_E_SPEC", "tg_net_attach": "TG_E_PEER"}
# Asking for a value that is not there, or of another type, is an assertion: no valid call is tried.
ASSERTS = {"tg_spec_int", "tg_spec_flag", "tg_spec_duration", "tg_spec_word"}
# Where NULL is fine.
NULL_IS_FINE = {
    ("tg_fail", "format"), ("tg_log_set", "fn"), ("tg_log_set", "arg"), ("tg_array_f32", "data"),
    ("tg_codec_encode", "ctx"), ("tg_reducer_create", "config"), ("tg_reducer_start", "on_done"),
    ("tg_reducer_start", "arg"), ("tg_reducer_start_as", "on_done"), ("tg_reducer_start_as", "arg"), ("tg_reducer_start_array", "on_done"), ("tg_reducer_start_array", "arg"), ("tg_registry_strategy_method", "strategy"), ("tg_session_step", "info"),
    ("tg_registry_default_strategy", "method"), ("tg_registry_default_strategy", "rules"), ("tg_registry_default_strategy", "optimizer"),
    ("tg_server_create", "config"), ("tg_session_plan", "arg"), ("tg_simulation_run", "end_p"), ("tg_clock_thread_start", "arg"), ("tg_readfile_open", "size_p"), ("tg_transport_shaped_links", "nodes"),
    ("tg_utf8_decode", "code_p"),
}
# Values in the place of a status for which NULL gives neither 0, NULL nor false.
TEXT_IF_NULL = {"tg_spec_word", "tg_net_about"}
MINUS_ONE_IF_NULL = {"tg_readfile_open"}  # a descriptor
# Numbers that may be anything, and lengths of the caller's memory, which nobody can check.
ANY = {
    ("tg_fail", "status"), ("tg_rng_permutation", "n"), ("tg_spec_parse", "count"), ("tg_optimizer_step", "n"),
    ("tg_codec_encode", "dst_cap"), ("tg_mxnet_2bit_encode", "dst_cap"), ("tg_strom_encode", "dst_cap"),
    ("tg_strom_decode_add", "count"), ("tg_session_save", "len"), ("tg_session_load_memory", "len"), ("tg_session_measure", "room"),
    ("tg_simulation_measure", "room"), ("tg_simulation_create", "ntensors"), ("tg_weights_read", "count"),
    ("tg_hash", "len"), ("tg_rate_parse", "len"), ("tg_time_parse", "len"), ("tg_bytes_parse", "len"),
    ("tg_nearest_offer", "len"), ("tg_utf8_decode", "len"), ("tg_server_mode_normal", "room"),
}
NONSENSE = {
    "int": ["-1", "INT_MIN", "INT_MAX"], "unsigned": ["UINT_MAX"], "uint32_t": ["UINT32_MAX"], "size_t": ["SIZE_MAX"],
    "double": ["(double)NAN", "(double)-INFINITY", "-1.0"], "float": ["NAN", "INFINITY", "-1.0f"],
}
# Structures that a function fills: what is in them before does not matter.
OUTPUTS = {("tg_link_parse", "link_p"), ("tg_transport_destroy", "t")}


def functions(text):
    """(returns, name, [(type, name)]) of each function declared or defined in a header."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^\s*#.*?(?<!\\)$", " ", text, flags=re.S | re.M)
    text = re.sub(r"\s+", " ", text)
    for m in re.finditer(r"(?:TG_API (?:TG_NODISCARD )?|static inline )([\w *]*?[ *])(tg_\w+)\(", text):
        depth, end = 1, m.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        yield m.group(1).strip(), m.group(2), [argument(a) for a in split(text[m.end():end - 1]) if a not in ("void", "...")]


def split(text):
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts]


def argument(text):
    callback = re.match(r".*?\(\*(\w+)\)\(", text)
    if callback:
        return "callback *", callback.group(1)
    array = re.match(r"(.*?[ *])(\w+)\[\w*\]$", text)
    if array:
        return array.group(1).strip() + " *", array.group(2)
    kind, name = re.match(r"(.*?[ *])(\w+)$", text).groups()
    return kind.strip(), name


def main(output, folder, part=None):
    texts = {h: h.read_text(encoding="utf-8") for h in sorted(pathlib.Path(folder).glob("*.h"))}
    everything = "\n".join(texts.values())
    sized = set(re.findall(r"struct (tg_\w+) \{\s*size_t struct_size;", re.sub(r"/\*.*?\*/", " ", everything, flags=re.S)))
    enums = set(re.findall(r"typedef enum (tg_\w+)", everything))
    calls, seen, unknown = [], set(), []

    for header, declared in texts.items():
        wanted = header.stem == part if part else header.stem not in ("cuda", "mpi", "net")
        for returns, name, args in functions(declared):
            seen.update((name, a) for _, a in args)
            seen.add((name, None))
            valid = []
            for kind, a in args:
                value = THIS.get((name, a)) or VALID.get(kind)
                if value is None:
                    unknown.append(f"{name}: its argument {a} is a {kind}")
                    value = "0"
                valid.append(value)

            def call(text, check, replaced=None, by=None, before=""):
                given = [by if i == replaced else v for i, v in enumerate(valid)]
                if wanted:
                    calls.append((text, before, f"{name}({', '.join(given)})", check))

            status = returns == "tg_status"
            if name not in ASSERTS:
                want = SAYS.get(name, "TG_OK")
                call(f"{name}()", f'return arg_expect(status, {want}, "{name}", NULL);' if status else "return 0;")
            for i, (kind, a) in enumerate(args):
                if kind.endswith("*"):
                    if (name, a) in NULL_IS_FINE or name.endswith(("_destroy", "_free", "_close")):
                        want = SAYS.get(name, "TG_OK")
                        check = f'return arg_expect(status, {want}, "{name}", NULL);' if status else "return 0;"
                    elif status:
                        check = f'return arg_expect(status, TG_E_ARG, "{name}", "{a}");'
                    elif returns == "void":
                        check = "return 0;"
                    elif name in MINUS_ONE_IF_NULL:
                        check = "return arg_value(value == -1);"
                    elif name in TEXT_IF_NULL:
                        check = "return arg_value(*value == 0);"
                    elif returns in ("tg_duration", "tg_array"):
                        check = "(void)value;\n    return 0;"
                    else:
                        check = "return arg_value(!(value > 0 || value < 0));" if returns == "double" else "return arg_value(!value);"
                    call(f"{name}({a} = NULL)", check, i, "NULL")
                bare = kind.replace("const ", "").rstrip(" *")
                if status and kind.count("*") == 1 and bare in sized:
                    if (name, a) not in OUTPUTS:
                        call(f"{name}({a}->struct_size = 0)", "return arg_refused(status);", i, "&copy",
                             f"{bare} copy = *{valid[i]};\n    copy.struct_size = 0;\n    ")
                for value in NONSENSE.get(kind, []) + (["(%s)-1" % kind, "(%s)1000" % kind] if kind in enums else []):
                    if (name, a) in ANY and not (kind in enums):
                        continue
                    check = "return arg_refused(status);" if status and (name, a) not in ANY else "return 0;"
                    call(f"{name}({a} = {value})", check, i, value)

    for table in (THIS, NULL_IS_FINE, ANY, OUTPUTS, {(f, None) for f in ASSERTS | TEXT_IF_NULL | MINUS_ONE_IF_NULL | SAYS.keys()}):
        unknown += [f"{f}: no header has it, or its argument {a}" for f, a in table if (f, a) not in seen]
    if unknown:
        sys.exit("tests/arguments.py does not know, or knows what is no more:\n  " + "\n  ".join(unknown))
    with open(output, "w", encoding="utf-8") as out:
        out.write('#include "arguments_try.h"\n')
        if part:
            out.write({"mpi": '#include "telegrad/mpi.h"\n', "net": '#include "arguments_net.h"\n'}[part])
        for n, (text, before, expr, check) in enumerate(calls):
            if "status" in check.replace("struct_size", ""):
                expr = "const tg_status status = " + expr
            elif "value" in check:
                expr = "const __typeof__(" + expr + ") value = " + expr
            elif re.match(r"tg_\w+", expr) and check == "return 0;":
                expr = "(void)" + expr
            out.write(f"\nstatic int call_{n}(void)\n{{\n    {before}{expr};\n    {check}\n}}\n")
        out.write("\nstatic const arg_call calls[] = {\n")
        for n, (text, *_) in enumerate(calls):
            out.write('    {"%s", call_%d},\n' % (text, n))
        out.write("};\n\nint main(void)\n{\n    return arg_try_all(calls, sizeof calls / sizeof calls[0]);\n}\n")


if __name__ == "__main__":
    main(sys.argv[1], *sys.argv[2:])
