"""A reader of files of weights that shares nothing with the library: the format as its page describes it, with Python's own
modules only.    safetensors_reader.read(PATH) -> (metadata, {name: (shape, [values])})"""
import array
import json
import math
import struct


def unique(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), "a name is there twice"
    return dict(pairs)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    assert length % 8 == 0 and 8 + length <= len(data), "header length"
    text = data[8:8 + length].decode("utf-8")
    assert text.startswith("{") and text.rstrip(" ").endswith("}"), "padded by blanks only"
    header = json.loads(text, object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(value, str) for value in metadata.values())
    tensors, at = {}, 0
    for name, tensor in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        assert sorted(tensor) == ["data_offsets", "dtype", "shape"], name
        assert tensor["dtype"] == "F32", name
        begin, end = tensor["data_offsets"]
        assert begin == at and end - begin == 4 * math.prod(tensor["shape"]), name
        values = array.array("f", data[8 + length + begin:8 + length + end])
        tensors[name] = (tensor["shape"], values)
        at = end
    assert 8 + length + at == len(data), "bytes behind the last tensor"
    return metadata, tensors
