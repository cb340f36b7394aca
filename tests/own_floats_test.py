"""Public functions that compute begin with TG__OWN_FLOATS (src/base/floats.h), so that the host program's floating-point
environment changes no bits. Each function of the parts below does, or is listed as one that does not compute."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARTS = ("codec", "engine", "plan", "server", "session", "state", "strategy")
OTHERS = {  # they hand out what is there, release it or note it
    "tg_codec_destroy", "tg_codec_set_threads", "tg_device_register", "tg_kind_name", "tg_lr_schedule_destroy", "tg_mxnet_2bit_bytes",
    "tg_optimizer_destroy", "tg_optimizer_slot_name", "tg_optimizer_slots", "tg_reducer_bytes_sent", "tg_reducer_ratio",
    "tg_reducer_slot_count", "tg_reducer_slot_get", "tg_registry_entries", "tg_server_destroy", "tg_session_bytes_control",
    "tg_session_bytes_near", "tg_session_bytes_sent", "tg_session_request_stop", "tg_session_resumed", "tg_session_skipped",
    "tg_session_steps", "tg_session_take_memory", "tg_session_touches", "tg_session_waited", "tg_simulation_destroy",
    "tg_weights_close", "tg_weights_metadata", "tg_weights_path"}
public = {name for header in ROOT.glob("include/telegrad/*.h") for name in re.findall(r"\b(tg_[a-z0-9_]+)\(", header.read_text())}
computing, wrong = set(), []
for part in PARTS:
    for source in sorted((ROOT / "src" / part).rglob("*.c")):
        for name, first in re.findall(r"^[A-Za-z][^;{}()=]*?\b(tg_[a-z0-9_]+)\([^;{}]*\)\s*\{\s*(\w*)", source.read_text(), re.M):
            if name in public and name not in OTHERS:
                computing.add(name)
                if first != "TG__OWN_FLOATS":
                    wrong.append(f"{source.relative_to(ROOT)}: {name} does not begin with TG__OWN_FLOATS")
missing = {"tg_codec_encode", "tg_frame_decode", "tg_reducer_start", "tg_server_run", "tg_session_step", "tg_optimizer_step"} - computing
if missing:
    wrong.append(f"not found: {', '.join(sorted(missing))}")
print("\n".join(wrong) or f"{len(computing)} functions")
sys.exit(1 if wrong else 0)
