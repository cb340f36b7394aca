"""PyTorch's side of `telegrad bench train --compare torch`: times training steps of the models of models.py on one thread.

Says "ready VERSION". Then a line each:
    about                                                   ->  VERSION, GFLOP/s of a matrix product: how good its BLAS is
    open SPEC BATCH HEIGHT WIDTH CHANNELS CONTEXT CLASSES   ->  FORMAT PARAMETERS: the memory format that is the faster one
    steps N                                                 ->  N times in milliseconds
or "failed REASON". A step is forward, backward, SGD with momentum; its batch is in memory. Times are of the processor, as
telegrad's are."""
import sys
import time
import torch
import torch.nn.functional as F
from models import Input, create

LR = 0.0001  # as telegrad's: parameters stay where they are, nearly


class Bench:
    def __init__(self, spec, batch, shape, memory_format):
        torch.manual_seed(1)
        self.model = create(spec, shape).to(memory_format=memory_format)
        self.model.train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LR, momentum=0.9)
        if shape.context:
            self.x = torch.randint(shape.classes, (batch, shape.context))
            self.labels = torch.randint(shape.classes, (batch * shape.context,))
        else:
            self.x = torch.randn(batch, shape.channels, shape.height, shape.width).to(memory_format=memory_format)
            self.labels = torch.randint(shape.classes, (batch,))
        self.classes = shape.classes

    def step(self):
        """Milliseconds."""
        begin = time.process_time()
        loss = F.cross_entropy(self.model(self.x).view(-1, self.classes), self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return (time.process_time() - begin) * 1e3

    def parameters(self):
        return sum(p.numel() for p in self.model.parameters())


def best(spec, batch, shape):
    """The bench of the memory format whose steps are the faster ones, and that format's name."""
    formats = {"contiguous": torch.contiguous_format}
    if shape.channels > 1:
        formats["channels_last"] = torch.channels_last
    times = {}
    for name, memory_format in formats.items():
        bench = Bench(spec, batch, shape, memory_format)
        bench.step()
        times[name] = min(bench.step() for _ in range(3)) if len(formats) > 1 else 0
    name = min(times, key=times.get)
    bench = Bench(spec, batch, shape, formats[name])
    for _ in range(2):
        bench.step()
    return bench, name


def gemm_gflops(n=1024):
    a, b = torch.randn(n, n), torch.randn(n, n)
    times = []
    for _ in range(3):
        begin = time.process_time()
        a @ b
        times.append(time.process_time() - begin)
    return 2 * n**3 / min(times) / 1e9


def main():
    torch.set_num_threads(1)
    bench = None
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        what, *arguments = line.split()
        try:
            if what == "about":
                print(torch.__version__, f"{gemm_gflops():.1f}", flush=True)
            elif what == "open":
                bench = None  # one at a time in memory
                spec, batch, *shape = arguments
                bench, name = best(spec, int(batch), Input(*map(int, shape)))
                print(name, bench.parameters(), flush=True)
            else:
                print(*(f"{bench.step():.6f}" for _ in range(int(arguments[0]))), flush=True)
        except (ValueError, TypeError, RuntimeError) as error:
            print("failed", " ".join(str(error).split()), flush=True)


if __name__ == "__main__":
    main()
