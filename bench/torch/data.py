"""telegrad's data sets, read from their files as telegrad does (docs/data.md there): the same samples, order of classes,
normalisation, vocabulary, split. Needs PyTorch alone.

    data = open_data("cifar10:train=1-4,test=5")       # below $TELEGRAD_DATA, then ./data
    data = open_data("text:poems.txt")"""
import gzip
import lzma
import os
import struct
import torch
from models import Input, number

CLASSES = 10


def read(path):
    """Bytes of PATH, PATH.gz or PATH.xz."""
    for name, opener in ((path, open), (path + ".gz", gzip.open), (path + ".xz", lzma.open)):
        if os.path.exists(name):
            with opener(name, "rb") as file:
                return bytearray(file.read())
    raise FileNotFoundError(f"{path}: not there, nor with .gz or .xz")


def locate(place):
    roots = [root for root in (os.environ.get("TELEGRAD_DATA"), "data") if root]
    for root in roots:
        if os.path.exists(os.path.join(root, place)):
            return os.path.join(root, place)
    raise FileNotFoundError(f"{place}: in none of {', '.join(roots)}; set TELEGRAD_DATA or give the path")


# ---- images ----------------------------------------------------------------------------------------------------------


class Images:
    """x (n, channels, height, width) u8 and labels (n), of "train" and "test"."""

    unit = "images"

    def __init__(self, parts, mean, deviation, augment):
        self.parts = parts
        channels = len(mean)
        self.mean = torch.tensor(mean).view(1, channels, 1, 1)
        self.deviation = torch.tensor(deviation).view(1, channels, 1, 1)
        self.augment = augment

    def count(self, split):
        return len(self.parts[split][1])

    def input(self, context):
        del context
        channels, height, width = self.parts["train"][0].shape[1:]
        return Input(height, width, channels, 0, CLASSES)

    def normalised(self, x):
        return (x.float() / 255 - self.mean) / self.deviation

    def train_batches(self, batch, context, stream, generator):
        """One epoch, in a random order; what is left over is left out."""
        del context, stream
        x, labels = self.parts["train"]
        for index in torch.randperm(len(labels), generator=generator).split(batch):
            if len(index) == batch:
                images = crop_and_flip(x[index], generator) if self.augment else x[index]
                yield self.normalised(images), labels[index]

    def test_batches(self, batch, context, stream):
        del context, stream
        x, labels = self.parts["test"]
        for begin in range(0, len(labels), batch):
            yield self.normalised(x[begin : begin + batch]), labels[begin : begin + batch]

    def steps(self, batch, context):
        del context
        return self.count("train") // batch


def crop_and_flip(x, generator, pad=4):
    """A crop at a random place of each image with 4 black pixels on all sides, half of them mirrored."""
    n, _, height, width = x.shape
    padded = torch.nn.functional.pad(x, (pad, pad, pad, pad))
    down, right = torch.randint(2 * pad + 1, (2, n), generator=generator).tolist()
    flip = torch.randint(2, (n,), generator=generator).tolist()
    out = torch.empty_like(x)
    for i in range(n):
        image = padded[i, :, down[i] : down[i] + height, right[i] : right[i] + width]
        out[i] = image.flip(2) if flip[i] else image
    return out


def idx(path, magic):
    data = read(path)
    found, count = struct.unpack(">II", data[:8])
    if found != magic:
        raise ValueError(f"{path}: magic {found:#x}, not {magic:#x}")
    shape = (count, 1, *struct.unpack(">II", data[8:16])) if magic == 0x803 else (count,)
    return torch.frombuffer(data, dtype=torch.uint8, offset=16 if magic == 0x803 else 8).reshape(shape)


def open_idx(place, mean, deviation):
    def opener(path=None, augment="none"):
        path = path or locate(place)
        parts = {split: (idx(f"{path}/{stem}-images-idx3-ubyte", 0x803), idx(f"{path}/{stem}-labels-idx1-ubyte", 0x801).long())
                 for split, stem in (("train", "train"), ("test", "t10k"))}
        return Images(parts, [mean], [deviation], augment == "crop-flip")

    return opener


def cifar_batches(text):
    """ "1-3+5" -> files"""
    if text == "test":
        return ["test_batch"]
    names = []
    for part in text.split("+"):
        first, _, last = part.partition("-")
        names += [f"data_batch_{i}" for i in range(int(first), int(last or first) + 1)]
    return names


def open_cifar10(path=None, train="1-5", test="test", augment="crop-flip"):
    path = path or locate("cifar-10")
    parts = {}
    for split, batches in (("train", train), ("test", test)):
        data = b"".join(read(f"{path}/{name}.bin") for name in cifar_batches(str(batches)))
        records = torch.frombuffer(bytearray(data), dtype=torch.uint8).reshape(-1, 3073)
        parts[split] = (records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0].long())
    return Images(parts, [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616], augment == "crop-flip")


# ---- text ------------------------------------------------------------------------------------------------------------


class Tokens:
    """Tokens (n) of "train" and "test"."""

    def __init__(self, parts, vocabulary, unit):
        self.parts = {split: torch.tensor(tokens) for split, tokens in parts.items()}
        self.vocabulary = vocabulary
        self.unit = unit

    def count(self, split):
        return len(self.parts[split])

    def input(self, context):
        return Input(context=context, classes=self.vocabulary)

    def steps(self, batch, context):
        return (self.count("train") - 1) // (batch * context)

    def rows(self, split, count, length):
        """(count, length) tokens and their labels, side by side in the text; -1 behind its end."""
        text = self.parts[split]
        labels = torch.full((count * length,), -1)
        tokens = torch.zeros(count * length, dtype=torch.long)
        n = min(count * length, len(text) - 1)
        tokens[:n], labels[:n] = text[:n], text[1 : n + 1]
        return tokens.view(count, length), labels.view(count, length)

    def train_batches(self, batch, context, stream, generator):
        """One epoch: of rows that go on from batch to batch, or of windows at random places."""
        steps = self.steps(batch, context)
        if stream:
            tokens, labels = self.rows("train", batch, (self.count("train") - 1) // batch)
            for begin in range(0, steps * context, context):
                yield tokens[:, begin : begin + context], labels[:, begin : begin + context]
            return
        text = self.parts["train"]
        for _ in range(steps):
            places = torch.randint(len(text) - context, (batch, 1), generator=generator) + torch.arange(context)
            yield text[places], text[places + 1]

    def test_batches(self, batch, context, stream):
        """Every token but the first is predicted once."""
        labels = self.count("test") - 1
        length = -(-labels // batch) if stream else context
        tokens, labels = self.rows("test", batch if stream else -(-labels // context), length)
        if stream:
            for begin in range(0, length, context):
                yield tokens[:, begin : begin + context], labels[:, begin : begin + context]
        else:
            yield from zip(tokens.split(batch), labels.split(batch))


def open_text(path=None, split=0.9, unit="characters"):
    data = bytes(read(path or locate("tiny-shakespeare/input.txt")))
    text = data if unit == "bytes" else data.decode("utf-8")
    code = {character: i for i, character in enumerate(sorted(set(text)))}
    tokens = [code[character] for character in text]
    end = int(split * len(tokens))
    return Tokens({"train": tokens[:end], "test": tokens[end:]}, len(code), "characters")


def words_of(path, name):
    for file in (f"{path}/{name}.txt", f"{path}/wiki.{name}.tokens"):
        try:
            lines = read(file).decode("utf-8").split("\n")
        except FileNotFoundError:
            continue
        return [word for line in lines[: len(lines) - (lines[-1] == "")] for word in [*line.split(" "), "<eos>"] if word]
    raise FileNotFoundError(f"{path}: neither {name}.txt nor wiki.{name}.tokens")


def open_words(path=None, eval="test"):  # pylint: disable=redefined-builtin
    path = path or locate("wikitext-2")
    code, parts = {}, {"train": [], "test": []}
    for word in words_of(path, "train"):
        parts["train"].append(code.setdefault(word, len(code)))
    parts["test"] = [code[word] if word in code else code["<unk>"] for word in words_of(path, eval)]
    return Tokens(parts, len(code), "words")


SETS = {
    "mnist": open_idx("mnist", 0.1307, 0.3081),
    "fashion-mnist": open_idx("fashion-mnist", 0.2860, 0.3530),
    "cifar10": open_cifar10,
    "text": open_text,
    "shakespeare": open_text,
    "words": open_words,
    "wikitext-2": open_words,
}


def open_data(spec):
    """NAME, NAME:PATH, NAME:key=value,..., NAME:PATH,key=value,..."""
    name, _, rest = spec.partition(":")
    if name not in SETS:
        raise ValueError(f'data "{name}": there are {", ".join(SETS)}')
    keys = {}
    for i, part in enumerate(part for part in rest.split(",") if part):
        key, equals, value = part.partition("=")
        if not equals and i > 0:
            raise ValueError(f'data "{spec}": "{part}" is no key=value')
        keys["path" if not equals or key in ("dir", "file") else key] = number(value) if equals else part
    return SETS[name](**keys)
