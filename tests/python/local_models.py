"""Models, batches and steps for the tests of telegrad.torch.Local. Without PyTorch the program ends with status 77."""
import sys
import threading

try:
    import torch
except ImportError:
    print("SKIP: no PyTorch in", sys.executable)
    sys.exit(77)

SPECS = ("local:every=1", "local:every=3", "local:every=3,after=4", "local:every=2,momentum=reset", "fedavg:every=3,clients=0.5",
         "fedavg:every=3,clients=0.5,momentum=reset",
         "diloco:every=4", "streaming:every=4,fragments=2,overlap=2,alpha=0.5", "eager:every=3", "sparseloco:every=4",
         "gossip:overlap=2,mean=5", "dga:delay=4,every=2", "dga:delay=2", "ssgd", "pipe:width=3",
         "cd:warmup=3,k=2,local=sgd,eta_loc=0.01", "od:warmup=3,local=sgd,eta_loc=0.01")
torch.set_num_threads(1)


def model_of(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.BatchNorm1d(24), torch.nn.ReLU(), torch.nn.Linear(24, 3)).to(dtype)


seeding = threading.Lock()  # torch.manual_seed is the process's


def made(seed, dtype=torch.float32):
    with seeding:
        return model_of(seed, dtype)


def plain(seed):
    """Without the biases before a norm, whose gradients are rounding noise, which AdamW scales up."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.Linear(24, 3))


def batch(rank, step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(8, 12, generator=generator).to(dtype), torch.randint(3, (8,), generator=generator)


def train(opt, model, rank, begin, end, spoil=None, dtype=torch.float32):
    for step in range(begin, end):
        opt.zero_grad()
        x, y = batch(rank, step, dtype)
        torch.nn.functional.cross_entropy(model(x).float(), y).backward()
        if spoil is not None:
            spoil(step)
        opt.step()


def values(model):
    return torch.cat([p.detach().reshape(-1).float() for p in list(model.parameters()) + [b for b in model.buffers() if b.is_floating_point()]])


def weights(model):
    return torch.cat([p.detach().reshape(-1).float() for p in model.parameters()])


def adamw(model):
    return torch.optim.AdamW(model.parameters(), 0.01)


class Fixed(torch.nn.Module):
    """Parameters whose gradients are given: sums of them are exact."""

    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Parameter(torch.ones(5, 7)), torch.nn.Parameter(torch.zeros(3))

    def give(self, rank, step):
        for p in self.parameters():
            generator = torch.Generator().manual_seed(100 * rank + step)
            p.grad = (torch.randint(-8, 9, p.shape, generator=generator) / 8.0).to(p.device)
