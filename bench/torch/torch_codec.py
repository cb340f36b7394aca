"""What people use today to make gradients smaller, in PyTorch, timed on one core.

torch_codec.py FILE N SECONDS   FILE: N floats. Says "ready VERSION"; then for each line with the name of an operation
"MS COPY_MS": the medians of its time and of a copy's, in turn, over SECONDS or more."""
import sys
import time

try:
    import torch
except ImportError as error:
    print("missing", error, flush=True)
    sys.exit(3)

torch.set_num_threads(1)
path, n, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
g = torch.from_file(path, shared=False, size=n, dtype=torch.float32).clone()
k = max(1, int(0.001 * n + 0.5))
out, r, u, v = (torch.zeros(n) for _ in range(4))
# ResNet-50's matrices, rows x columns x how many, as far as n has room for them
SHAPES = [(64, 147, 1), (64, 64, 1), (64, 256, 2), (64, 576, 3), (256, 64, 4), (128, 256, 1), (128, 512, 3),
          (128, 1152, 4), (512, 128, 4), (512, 256, 1), (256, 512, 1), (256, 1024, 5), (256, 2304, 6), (1024, 256, 6),
          (1024, 512, 1), (512, 1024, 1), (512, 2048, 2), (512, 4608, 3), (2048, 512, 3), (2048, 1024, 1), (1000, 2048, 1)]
RANK = 4
matrices, at = [], 0
for rows, cols, times in SHAPES:
    for _ in range(times):
        if rows * cols < n - at:
            matrices.append((at, rows, cols))
            at += rows * cols
qs = [torch.randn(cols, RANK) for _, _, cols in matrices]
weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8)


def copy():
    out.copy_(g)


def topk():
    """GRACE, topk.py"""
    _, idx = torch.topk(g.abs(), k, sorted=False)
    return torch.gather(g, 0, idx), idx


def dgc():
    """The authors' code (dgc/memory.py, dgc/compression.py): sampled threshold, at most ten adaptations"""
    u.mul_(0.9).add_(g)
    v.add_(u)
    importance = v.abs()
    stride = max(1, n // max(1, int(0.01 * n)))
    sample = importance[::stride]
    threshold = torch.topk(sample, max(1, k // stride), sorted=False)[0].min()
    mask = importance >= threshold
    for _ in range(10):
        count = int(mask.sum())
        if count > 1.3 * k:
            threshold = threshold * 1.3
        elif count < 0.8 * k:
            threshold = threshold * 0.8
        else:
            break
        mask = importance >= threshold
    idx = mask.nonzero().view(-1)[:k]
    values = v[idx]
    v.index_fill_(0, idx, 0)
    u.index_fill_(0, idx, 0)
    return values, idx


def sign():
    bits = (g[: n // 8 * 8] < 0).view(torch.uint8).view(-1, 8)
    return (bits * weights).sum(1, dtype=torch.uint8)


def fp16():
    return g.to(torch.float16)


def q8():
    """GRACE, qsgd.py, with 127 levels"""
    level = 127 / g.norm() * g.abs()
    lower = level.floor()
    up = (torch.rand_like(g) < level - lower).float()
    return ((lower + up) * g.sign()).to(torch.int8)


def onebit():
    """GRACE, onebit.py and memory/residual.py"""
    r.add_(g)
    below = r < 0
    above = ~below
    low, high = r[below].mean(), r[above].mean()
    r.sub_(low * below.float() + high * above.float())
    return below.to(torch.uint8), low, high


def orthogonalize(matrix):
    """powerSGD_hook.py, epsilon 0"""
    for i in range(matrix.shape[1]):
        column = matrix[:, i:i + 1]
        column /= torch.norm(column)
        if i + 1 < matrix.shape[1]:
            rest = matrix[:, i + 1:]
            rest -= torch.sum(column * rest, dim=0) * column


def powersgd():
    """torch.distributed's powerSGD_hook, what one rank computes between its all-reduces; r is its error dictionary"""
    out.copy_(g)
    out.add_(r)
    r.copy_(out)
    for (start, rows, cols), q in zip(matrices, qs):
        matrix = out[start:start + rows * cols].view(rows, cols)
        orthogonalize(q)
        p = matrix @ q
        orthogonalize(p)
        torch.matmul(matrix.t(), p, out=q)
        torch.matmul(p, q.t(), out=matrix)
    r.sub_(out)


def timed(work):
    begin = time.thread_time()  # as ours: of the processor
    work()
    return (time.thread_time() - begin) * 1e3


def median(values):
    return sorted(values)[len(values) // 2]


OPERATIONS = {f.__name__: f for f in (copy, topk, dgc, sign, fp16, q8, onebit, powersgd)}
print("ready", torch.__version__, flush=True)
for line in sys.stdin:
    work, own, copies = OPERATIONS[line.strip()], [], []
    work()
    end = time.perf_counter() + seconds
    while len(own) < 3 or (time.perf_counter() < end and len(own) < 101):
        own.append(timed(work))
        copies.append(timed(copy))
    print(median(own), median(copies), flush=True)
