#!/usr/bin/env python3
"""Golden values of the layers of tokens, forward and backward, by PyTorch in double precision:

    tools/make_sequence_golden.py                   write tests/golden/golden_sequence.h (in the root of the repository)
    tools/make_sequence_golden.py --check PROGRAM   let sequence_golden_test compare with values of other inputs

A line is "NAME VALUE VALUE ..."; lines of one name go on from one another. Inputs are exact in single precision.
Ends with status 77 where PyTorch is not installed."""
import subprocess
import sys
import tempfile

try:
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print("SKIP:", missing)
    sys.exit(77)

LINE = 60  # values


class Writer:
    def __init__(self):
        self.lines = []

    def put(self, name, values):
        flat = torch.as_tensor(values).detach().reshape(-1).tolist()
        for i in range(0, len(flat), LINE):
            self.lines.append(" ".join([name] + ["%.9g" % v for v in flat[i:i + LINE]]))


def noise(*shape, scale=1.0):
    return (torch.randn(*shape) * scale).float().double().requires_grad_()


def lstm(out, case, batch, context, width, hidden):
    x, h, c = noise(batch, context, width), noise(1, batch, hidden), noise(1, batch, hidden)
    dy = noise(batch, context, hidden).detach()
    layer = torch.nn.LSTM(width, hidden, batch_first=True).double()
    for p in layer.parameters():
        p.data = noise(*p.shape, scale=0.4).detach()
    y, (h1, c1) = layer(x, (h, c))
    (y * dy).sum().backward()
    out.put(case + ".shape", [batch, context, width, hidden])
    for name, value in [("x", x), ("h", h), ("c", c), ("dy", dy), ("y", y), ("h1", h1), ("c1", c1), ("dx", x.grad)]:
        out.put(case + "." + name, value)
    for name, p in layer.named_parameters():
        out.put(case + "." + name, p)
        out.put(case + ".d_" + name, p.grad)


def attend(qkv, heads):
    batch, context, width = qkv.shape[0], qkv.shape[1], qkv.shape[2] // 3
    q, k, v = (t.view(batch, context, heads, width // heads).transpose(1, 2) for t in qkv.split(width, dim=2))
    score = q @ k.transpose(2, 3) / (width // heads) ** 0.5
    mask = torch.ones(context, context).tril() == 0
    score = score.masked_fill(mask, float("-inf"))
    return (score.softmax(-1) @ v).transpose(1, 2).reshape(batch, context, width)


def attention(out, case, batch, context, width, heads):
    x, dy = noise(batch, context, 3 * width), noise(batch, context, width).detach()
    y = attend(x, heads)
    (y * dy).sum().backward()
    out.put(case + ".shape", [batch, context, width, heads])
    for name, value in [("x", x), ("dy", dy), ("y", y), ("dx", x.grad)]:
        out.put(case + "." + name, value)


def layernorm(out, case, rows, width):
    x = (noise(rows, width).detach() * 3 + 5).float().double().requires_grad_()
    gamma, beta, dy = noise(width), noise(width), noise(rows, width).detach()
    y = F.layer_norm(x, (width,), gamma, beta)
    (y * dy).sum().backward()
    out.put(case + ".shape", [rows, width])
    for name, value in [("x", x), ("gamma", gamma), ("beta", beta), ("dy", dy), ("y", y), ("dx", x.grad),
                        ("dgamma", gamma.grad), ("dbeta", beta.grad)]:
        out.put(case + "." + name, value)


def gelu(out, case):
    some = torch.cat([torch.randn(60) * 2, torch.tensor([0.0, -0.0, 1e-6, -1e-6, 12, -12, 90, -90, 1e4, -1e4])])
    x = some.float().double().requires_grad_()
    dy = noise(len(x)).detach()
    y = F.gelu(x, approximate="tanh")
    (y * dy).sum().backward()
    for name, value in [("x", x), ("dy", dy), ("y", y), ("dx", x.grad)]:
        out.put(case + "." + name, value)


def cross_entropy(logits, labels):
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), ignore_index=-1)


def model(out, case, parameters, forward, vocabulary, batch, context):
    """parameters: name -> tensor with a gradient to be; forward(parameters, tokens) -> logits"""
    tokens = torch.randint(vocabulary, (batch, context))
    labels = torch.randint(vocabulary, (batch, context))
    labels[-1, -1] = labels[0, 1] = -1
    loss = cross_entropy(forward(parameters, tokens), labels)
    loss.backward()
    out.put(case + ".tokens", tokens)
    out.put(case + ".labels", labels)
    out.put(case + ".loss", [loss])
    for name, p in parameters.items():
        out.put(case + "." + name, p)
        out.put(case + ".d_" + name, p.grad)


def model_lstm(out, case, tied, vocabulary, embed, hidden, layers, batch, context):
    p = {"encoder.weight": noise(vocabulary, embed)}
    for i in range(layers):
        width = hidden if i else embed
        for name, shape in [("weight_ih", (4 * hidden, width)), ("weight_hh", (4 * hidden, hidden)),
                            ("bias_ih", (4 * hidden,)), ("bias_hh", (4 * hidden,))]:
            p["rnn.%s_l%d" % (name, i)] = noise(*shape, scale=0.5)
    if not tied:
        p["decoder.weight"] = noise(vocabulary, hidden)
    p["decoder.bias"] = noise(vocabulary)

    def forward(p, tokens):
        x = F.embedding(tokens, p["encoder.weight"])
        zero = torch.zeros(layers, batch, hidden, dtype=torch.float64)
        flat = [v for name, v in p.items() if name.startswith("rnn.")]
        x = torch._VF.lstm(x, (zero, zero), flat, True, layers, 0.0, True, False, True)[0]
        return F.linear(x, p["encoder.weight" if tied else "decoder.weight"], p["decoder.bias"])

    model(out, case, p, forward, vocabulary, batch, context)


def model_gpt(out, case, tied, vocabulary, layers, heads, embed, batch, context):
    p = {"transformer.wte.weight": noise(vocabulary, embed), "transformer.wpe.weight": noise(context, embed)}

    def norm(name):
        p[name + ".weight"], p[name + ".bias"] = noise(embed), noise(embed)

    def dense(name, wide, narrow):
        p[name + ".weight"], p[name + ".bias"] = noise(wide, narrow, scale=0.5), noise(wide, scale=0.5)

    for i in range(layers):
        at = "transformer.h.%d." % i
        norm(at + "ln_1")
        dense(at + "attn.c_attn", 3 * embed, embed)
        dense(at + "attn.c_proj", embed, embed)
        norm(at + "ln_2")
        dense(at + "mlp.c_fc", 4 * embed, embed)
        dense(at + "mlp.c_proj", embed, 4 * embed)
    norm("transformer.ln_f")
    if not tied:
        p["lm_head.weight"] = noise(vocabulary, embed)

    def forward(p, tokens):
        def ln(x, name):
            return F.layer_norm(x, (embed,), p[name + ".weight"], p[name + ".bias"])

        def linear(x, name):
            return F.linear(x, p[name + ".weight"], p[name + ".bias"])

        x = F.embedding(tokens, p["transformer.wte.weight"]) + p["transformer.wpe.weight"]
        for i in range(layers):
            at = "transformer.h.%d." % i
            x = x + linear(attend(linear(ln(x, at + "ln_1"), at + "attn.c_attn"), heads), at + "attn.c_proj")
            y = F.gelu(linear(ln(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh")
            x = x + linear(y, at + "mlp.c_proj")
        return F.linear(ln(x, "transformer.ln_f"), p["transformer.wte.weight" if tied else "lm_head.weight"])

    model(out, case, p, forward, vocabulary, batch, context)


def lines(seed):
    torch.manual_seed(seed)
    out = Writer()
    lstm(out, "lstm_small", 3, 4, 5, 3)
    lstm(out, "lstm_wide", 2, 3, 7, 17)
    attention(out, "attention_small", 2, 5, 6, 2)
    attention(out, "attention_long", 1, 37, 4, 1)
    layernorm(out, "layernorm", 3, 19)
    gelu(out, "gelu")
    model_lstm(out, "model_lstm_tied", True, 7, 4, 4, 2, 3, 4)
    model_lstm(out, "model_lstm_free", False, 7, 3, 4, 1, 2, 3)
    model_gpt(out, "model_gpt_tied", True, 7, 2, 2, 4, 2, 4)
    model_gpt(out, "model_gpt_free", False, 5, 1, 1, 4, 3, 3)
    return out.lines


def write():
    with open("tests/golden/golden_sequence.h", "w", encoding="ascii") as f:
        f.write("/* Made by tools/make_sequence_golden.py (PyTorch, float64), never by the library. */\n")
        f.write("static const char *const golden_sequence[] = {\n")
        f.writelines('    "%s",\n' % line for line in lines(1))
        f.write("};\n")


def check(program):
    for seed in (2, 3, 4):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
            f.write("\n".join(lines(seed)) + "\n")
            f.flush()
            subprocess.run([program, f.name], check=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    check(sys.argv[2]) if sys.argv[1:2] == ["--check"] else write()
