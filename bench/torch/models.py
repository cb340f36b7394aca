"""telegrad's models in PyTorch (1.12 or later): the same tensors under the same names, the same initial distributions, the
same arithmetic. Weights that telegrad saves can be loaded here.

    model = create("resnet20", Input(height=32, width=32, channels=3, classes=10))
    load_state(model, "model.safetensors")"""
import json
import math
from collections import namedtuple
import torch
import torch.nn.functional as F
from torch import nn

# Images (height, width, channels) or tokens (context > 0); classes: labels, or the vocabulary.
Input = namedtuple("Input", "height width channels context classes", defaults=(0, 0, 0, 0, 0))


def he_normal(model, kinds=(nn.Conv2d, nn.Linear), mode="fan_in"):
    """Weights N(0, 2 / fan) (He et al. 2015, arXiv:1502.01852, sec. 2.2), biases 0."""
    for module in model.modules():
        if isinstance(module, kinds):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def rows(x):
    """(batch, channels, height, width) as rows in the order (height, width, channels), which telegrad's activations have."""
    return x.permute(0, 2, 3, 1).flatten(1)


# ---- images ----------------------------------------------------------------------------------------------------------


class LeNet5(nn.Module):
    """LeCun et al. 1998 as MXNet's MNIST example has it: 431,080 parameters for 28 x 28."""

    def __init__(self, shape, act="tanh"):
        super().__init__()
        self.act = {"tanh": torch.tanh, "relu": F.relu}[act]
        self.conv1 = nn.Conv2d(shape.channels, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        side = [((length - 4) // 2 - 4) // 2 for length in (shape.height, shape.width)]
        self.fc1 = nn.Linear(50 * side[0] * side[1], 500)
        self.fc2 = nn.Linear(500, shape.classes)
        he_normal(self)

    def forward(self, x):
        x = F.max_pool2d(self.act(self.conv1(x)), 2)
        x = F.max_pool2d(self.act(self.conv2(x)), 2)
        return self.fc2(self.act(self.fc1(rows(x))))


class Mlp(nn.Module):
    def __init__(self, shape, hidden=128, hidden2=64):
        super().__init__()
        sizes = [shape.height * shape.width * shape.channels, hidden] + [hidden2] * (hidden2 > 0) + [shape.classes]
        self.layers = len(sizes) - 1
        for i in range(self.layers):
            setattr(self, f"fc{i + 1}", nn.Linear(sizes[i], sizes[i + 1]))
        he_normal(self)

    def forward(self, x):
        x = rows(x)
        for i in range(1, self.layers):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.layers}")(x)


class Block(nn.Module):
    """He et al. 2016, arXiv:1512.03385, sec. 3.2; shortcut "A": every second pixel, zeros for the channels that are new
    (half of them before, half after); "B": a convolution of 1 x 1 with batch normalisation."""

    def __init__(self, inner, outer, stride, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer)
        self.pad = (outer - inner) // 2
        self.stride = stride
        changes = stride != 1 or inner != outer
        if changes and shortcut == "B":
            self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        else:
            self.downsample = self.subsample if changes else nn.Identity()

    def subsample(self, x):
        return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, self.pad, self.pad))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return F.relu(y + self.downsample(x), inplace=True)


class ResNet(nn.Module):
    def __init__(self, shape, widths, blocks, shortcut):
        super().__init__()
        self.conv1 = nn.Conv2d(shape.channels, widths[0], 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        inner = widths[0]
        self.stages = len(widths)
        for i, width in enumerate(widths):
            stage = []
            for j in range(blocks):
                stage.append(Block(inner, width, 2 if i > 0 and j == 0 else 1, shortcut))
                inner = width
            setattr(self, f"layer{i + 1}", nn.Sequential(*stage))
        self.fc = nn.Linear(inner, shape.classes)
        if shortcut == "A":  # as Y. Idelbayev's re-implementation
            he_normal(self)
        else:  # as torchvision, but for the bias
            he_normal(self, nn.Conv2d, "fan_out")
            nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        for i in range(1, self.stages + 1):
            x = getattr(self, f"layer{i}")(x)
        return self.fc(x.mean((2, 3)))


def resnet_cifar(blocks):
    """He et al. 2016, sec. 4.2: 6 n + 2 layers"""
    return lambda shape: ResNet(shape, (16, 32, 64), blocks, "A")


def resnet18(shape):
    """ResNet-18 for CIFAR: 3 x 3 at the beginning, no pooling there; 11,173,962 parameters for 10 classes."""
    return ResNet(shape, (64, 128, 256, 512), 2, "B")


class Vgg11(nn.Module):
    """Simonyan and Zisserman 2015, arXiv:1409.1556, configuration A, for 32 x 32: one dense layer at the end."""

    def __init__(self, shape, bn=True):
        super().__init__()
        layers, inner = [], shape.channels
        for what in (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"):
            if what == "M":
                layers.append(nn.MaxPool2d(2))
                continue
            layers.append(nn.Conv2d(inner, what, 3, padding=1))
            layers += [nn.BatchNorm2d(what)] * bn + [nn.ReLU(inplace=True)]
            inner = what
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(512 * (shape.height // 32) * (shape.width // 32), shape.classes)
        he_normal(self, nn.Conv2d, "fan_out")  # as torchvision
        nn.init.normal_(self.classifier.weight, 0, 0.01)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x):
        return self.classifier(rows(self.features(x)))


# ---- tokens ----------------------------------------------------------------------------------------------------------


class Lstm(nn.Module):
    """PyTorch's word_language_model example. The state is carried from batch to batch until reset()."""

    def __init__(self, shape, layers=2, hidden=200, embed=200, tied=True, dropout=0.0):
        super().__init__()
        if tied and hidden != embed:
            raise ValueError(f"lstm:tied=yes with hidden={hidden}, embed={embed}")
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(shape.classes, embed)
        self.rnn = nn.LSTM(embed, hidden, layers, dropout=dropout if layers > 1 else 0, batch_first=True)
        self.decoder = nn.Linear(hidden, shape.classes)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)
        if tied:
            self.decoder.weight = self.encoder.weight
        self.state = None

    def reset(self):
        self.state = None

    def forward(self, tokens):
        x, state = self.rnn(self.drop(self.encoder(tokens)), self.state)
        self.state = tuple(s.detach() for s in state)
        return self.decoder(self.drop(x))


class Attention(nn.Module):
    def __init__(self, embed, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(embed, 3 * embed)
        self.c_proj = nn.Linear(embed, embed)

    def forward(self, x):
        b, t, e = x.shape
        q, k, v = (part.view(b, t, self.heads, e // self.heads).transpose(1, 2) for part in self.c_attn(x).split(e, 2))
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            later = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = (q @ k.transpose(2, 3) / math.sqrt(e // self.heads)).masked_fill(later, -math.inf).softmax(3) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, t, e))


class Feedforward(nn.Module):
    def __init__(self, embed):
        super().__init__()
        self.c_fc = nn.Linear(embed, 4 * embed)
        self.c_proj = nn.Linear(4 * embed, embed)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GptBlock(nn.Module):
    def __init__(self, embed, heads, dropout):
        super().__init__()
        self.ln_1 = nn.LayerNorm(embed)
        self.attn = Attention(embed, heads)
        self.ln_2 = nn.LayerNorm(embed)
        self.mlp = Feedforward(embed)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.drop(self.attn(self.ln_1(x)))
        return x + self.drop(self.mlp(self.ln_2(x)))


class Transformer(nn.Module):
    def __init__(self, shape, layers, heads, embed, dropout):
        super().__init__()
        self.wte = nn.Embedding(shape.classes, embed)
        self.wpe = nn.Embedding(shape.context, embed)
        self.drop = nn.Dropout(dropout)
        self.h = nn.ModuleList(GptBlock(embed, heads, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(embed)

    def forward(self, tokens):
        x = self.drop(self.wte(tokens) + self.wpe.weight[: tokens.shape[1]])
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class Gpt(nn.Module):
    """Radford et al. 2019 (GPT-2): norm before each part, learned positions, GELU by tanh."""

    def __init__(self, shape, layers=4, heads=4, embed=128, context=0, tied=True, dropout=0.0):
        super().__init__()
        if context not in (0, shape.context):
            raise ValueError(f"gpt:context={context}: the data have {shape.context} tokens in a sample")
        self.transformer = Transformer(shape, layers, heads, embed, dropout)
        self.lm_head = nn.Linear(embed, shape.classes, bias=False)
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0, 0.02 / (math.sqrt(2 * layers) if name.endswith("c_proj") else 1))
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        if tied:
            self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        return self.lm_head(self.transformer(tokens))


# ---- by name ---------------------------------------------------------------------------------------------------------

MODELS = {
    "lenet5": LeNet5,
    "mlp": Mlp,
    "resnet20": resnet_cifar(3),
    "resnet56": resnet_cifar(9),
    "resnet110": resnet_cifar(18),
    "resnet18": resnet18,
    "vgg11": Vgg11,
    "lstm": Lstm,
    "gpt": Gpt,
}


def number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"yes": True, "no": False}.get(text, text)


def parse_spec(spec):
    """"name:key=value,key=value" -> name, {key: value}"""
    name, _, keys = spec.partition(":")
    return name, {key: number(value) for key, _, value in (pair.partition("=") for pair in keys.split(",") if pair)}


def create(spec, shape):
    """A model by telegrad's spec string, e.g. "lstm:layers=2,hidden=200"."""
    name, keys = parse_spec(spec)
    if name not in MODELS:
        raise ValueError(f'model "{name}": there are {", ".join(MODELS)}')
    if (name in ("lstm", "gpt")) != (shape.context > 0):
        own, given = ("images", "a text") if shape.context else ("texts", "images")
        raise ValueError(f'model "{name}" is one of {own}, the data are {given}')
    return MODELS[name](shape, **keys)


def read_safetensors(path):
    """{name: tensor} of a file in the format safetensors, of 32-bit floats."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        head = json.loads(file.read(length))
        data = bytearray(file.read())
    head.pop("__metadata__", None)
    tensors = {}
    for name, about in head.items():
        begin, end = about["data_offsets"]
        if about["dtype"] != "F32":
            raise ValueError(f"{path}: {name} is of {about['dtype']}: this reads F32")
        flat = torch.frombuffer(data[begin:end], dtype=torch.float32) if end > begin else torch.zeros(0)
        tensors[name] = flat.reshape(about["shape"])
    return tensors


def load_state(model, path):
    """Take all of the model's tensors from a file, in which those that layers share stand once; returns the model."""
    tensors = read_safetensors(path)
    own = dict(model.state_dict())
    shared = {name for name, tensor in own.items()
              if name not in tensors and any(tensor.data_ptr() == own[other].data_ptr() for other in tensors if other in own)}
    missing = [name for name in own if name not in tensors and name not in shared and not name.endswith("num_batches_tracked")]
    extra = [name for name in tensors if name not in own]
    if missing or extra:
        raise ValueError(f"{path}: missing {missing}, unexpected {extra}")
    model.load_state_dict(tensors, strict=False)
    return model
