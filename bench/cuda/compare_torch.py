"""What people use today to make gradients smaller on a GPU, in PyTorch: milliseconds of each operation on N elements.

    compare_torch.py [N [REPEATS]]      JSON lines

The operations are those of GRACE and of PyTorch's own hooks, in PyTorch's own kernels. `copy` copies N floats on the device.
"""
import json
import sys
import time

import torch

n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 25_600_000
repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 20
torch.manual_seed(1)
inputs = [0.01 * torch.randn(n, device="cuda") * torch.randn(n, device="cuda") for _ in range(4)]
u, v, r, out = (torch.zeros(n, device="cuda") for _ in range(4))
k = max(1, round(0.001 * n))
weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device="cuda")


def copy(g):
    out.copy_(g)


def topk(g):
    """torch.topk alone"""
    torch.topk(g.abs(), k, sorted=False)


def topk_residual(g):
    """GRACE, topk.py with its residual memory: indices and values on the host"""
    r.add_(g)
    _, idx = torch.topk(r.abs(), k, sorted=False)
    values = r[idx]
    r[idx] = 0
    idx.to(torch.int32).cpu(), values.cpu()


def dgc_sampled(g):
    """GRACE, dgc.py: momentum correction, a threshold from a sample of 1 %, indices and values on the host"""
    u.mul_(0.9).add_(g)
    v.add_(u)
    magnitude = v.abs()
    sample = magnitude[torch.randint(0, n, (n // 100,), device="cuda")]
    threshold = torch.topk(sample, max(1, int(0.001 * sample.numel())))[0][-1]
    idx = torch.nonzero(magnitude >= threshold).flatten()
    values = v[idx]
    v[idx] = 0
    u[idx] = 0
    idx.to(torch.int32).cpu(), values.cpu()


def dgc_exact(g):
    """The same with exactly k elements, as telegrad's"""
    u.mul_(0.9).add_(g)
    v.add_(u)
    _, idx = torch.topk(v.abs(), k, sorted=False)
    values = v[idx]
    v[idx] = 0
    u[idx] = 0
    idx.to(torch.int32).cpu(), values.cpu()


def signs(g):
    """GRACE, efsignsgd.py, with bits packed"""
    r.add_(g)
    scale = r.abs().mean()
    bits = (r >= 0)
    r.sub_(torch.where(bits, scale, -scale))
    ((bits.view(-1, 8).to(torch.uint8) * weights).sum(1, dtype=torch.uint8)).cpu(), scale.cpu()


def fp16(g):
    g.half().cpu()


def qsgd(g):
    """GRACE, qsgd.py with 16 levels of 8 bits"""
    norm = g.norm()
    level = g.abs() * (16 / norm)
    low = level.floor()
    code = ((low + (torch.rand_like(g) < level - low)) * g.sign()).to(torch.int8)
    code.cpu(), norm.cpu()


def median(operation):
    times = []
    for i in range(-3, repeats):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        operation(inputs[i % 4])
        torch.cuda.synchronize()
        if i >= 0:
            times.append(1e3 * (time.perf_counter() - begin))
    return sorted(times)[len(times) // 2]


print(json.dumps({"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "elements": n}))
for operation in (copy, topk, topk_residual, dgc_sampled, dgc_exact, signs, fp16, qsgd):
    if operation is signs and n % 8:
        continue
    print(json.dumps({"operation": operation.__name__, "ms": round(median(operation), 4)}), flush=True)
