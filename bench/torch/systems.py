"""The systems that peers_rank.py trains with. Each is a context: it takes a Run of train.py, whose ranks torch.distributed connects, puts
its own network between them, and yields an Attached. `job` has its settings."""
import contextlib
import datetime
import itertools
import os
import time
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from ddp import HOOKS, register, register_telegrad
from train import settings

TIMEOUT = datetime.timedelta(seconds=300)


class Attached:
    """What differs between systems, as it is where nothing does: a step takes a batch, nothing is on its way after it, and the weights are
    those of the model."""

    def __init__(self, run, version=None):
        self.run, self.version = run, version

    def step(self, number, batches):
        """Train on the rank's next batch; returns its loss, and how many batches it took."""
        return self.run.step(number, *next(batches)), 1

    def finish(self):
        """Wait for what is on its way."""

    def weights(self):
        """A context in which the model has the weights that all ranks have in common."""
        return contextlib.nullcontext()


def distribute(run, **options):
    """Statistics of batch norms stay on their rank, in every row: to broadcast them costs two delays a step."""
    run.model = DistributedDataParallel(run.model, broadcast_buffers=False, **options)


def keep(_, bucket):
    """A communication hook that sends nothing."""
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


@contextlib.contextmanager
def alone(run, job):
    """DistributedDataParallel without an exchange."""
    del job
    distribute(run)
    run.model.register_comm_hook(None, keep)
    yield Attached(run)


@contextlib.contextmanager
def ddp(run, job):
    """PyTorch's all-reduce, or a hook of its own (ddp.py)."""
    hook, keys = settings(job["spec"], HOOKS, {})
    # PowerSGD chains three all-reduces per bucket. With several buckets, ranks start them in different orders, and Gloo fails.
    distribute(run, **({"bucket_cap_mb": 1024} if hook == "powersgd" else {}))
    run.optimizer = register(run.model, run.optimizer, hook, keys)
    yield Attached(run)


@contextlib.contextmanager
def telegrad(run, job):
    """telegrad's hook."""
    distribute(run)
    net = register_telegrad(run, job["spec"])
    try:
        yield Attached(run)
        dist.barrier()
    finally:
        net.close()


class AttachedLocal(Attached):
    def finish(self):
        self.run.optimizer.finish()

    def weights(self):
        return self.run.optimizer.global_weights()


@contextlib.contextmanager
def local(run, job):
    """telegrad's local methods."""
    from telegrad.torch import Local, Network
    net = Network()
    try:
        run.optimizer = Local(run.optimizer, run.model, job["spec"], net, method=job.get("method"), total_steps=run.steps,
                              bucket_bytes=job["bucket_bytes"], timeout=TIMEOUT.total_seconds())
        yield AttachedLocal(run)
        dist.barrier()
    finally:
        net.close()


def address():
    """Where the other ranks find this one."""
    return f"10.77.0.{dist.get_rank() + 1}" if os.environ.get("GLOO_SOCKET_IFNAME") == "eth0" else "127.0.0.1"


def from_rank_0(value):
    box = [value]
    dist.broadcast_object_list(box)
    return box[0]


@contextlib.contextmanager
def torchft(run, job):
    """torchft's DiLoCo: each rank is a replica group of one, and rank 0 has the lighthouse."""
    import importlib.metadata
    from torchft import Manager, ProcessGroupGloo
    from torchft.coordination import LighthouseServer
    from torchft.local_sgd import DiLoCo
    lighthouse = LighthouseServer(bind="0.0.0.0:0", min_replicas=dist.get_world_size(), join_timeout_ms=10000) if dist.get_rank() == 0 else None
    port = from_rank_0(lighthouse and lighthouse.address().rpartition(":")[2])
    store = dist.TCPStore(address(), 0, is_master=True, wait_for_workers=False)
    outer = torch.optim.SGD(run.model.parameters(), lr=0.7, momentum=0.9, nesterov=True)

    def load(state):
        run.model.load_state_dict(state)

    manager = Manager(pg=ProcessGroupGloo(timeout=TIMEOUT), min_replica_size=dist.get_world_size(), load_state_dict=load,
                      state_dict=run.model.state_dict, replica_id=str(dist.get_rank()), store_addr=address(), store_port=store.port, rank=0,
                      world_size=1, lighthouse_addr=f"http://{os.environ['MASTER_ADDR']}:{port}", hostname=address(), use_async_quorum=False,
                      timeout=TIMEOUT, quorum_timeout=TIMEOUT, init_sync=False)
    try:
        with DiLoCo(manager, [run.model], run.optimizer, outer, sync_every=job["period"],
                    use_bucketization=job.get("bucketized", False)):
            yield Attached(run, importlib.metadata.version(job.get("package", "torchft")))
        dist.barrier()
    finally:
        manager.shutdown(wait=False)
        if lighthouse:
            lighthouse.shutdown()


class AttachedHivemind(Attached):
    def step(self, number, batches):
        """Until the ranks have made their step together. Meanwhile each goes on collecting gradients, as hivemind does."""
        epoch, losses = self.run.optimizer.local_epoch, []
        while self.run.optimizer.local_epoch == epoch:
            losses.append(self.run.step(number, *next(batches)))
        return sum(losses) / len(losses), len(losses)


@contextlib.contextmanager
def hivemind(run, job):
    """hivemind's Optimizer, which makes a step whenever the ranks have a batch of each together."""
    import hivemind as library
    first = library.DHT(host_maddrs=[f"/ip4/{address()}/tcp/0"], start=True) if dist.get_rank() == 0 else None
    peers = from_rank_0(first and [str(place) for place in first.get_visible_maddrs()])
    dht = first or library.DHT(initial_peers=peers, host_maddrs=[f"/ip4/{address()}/tcp/0"], start=True)
    batch = run.options.batch
    refresh = {"min_refresh_period": 0.1, "default_refresh_period": 0.2, "max_refresh_period": 1.0}  # shorter than usual, so that a step waits less
    run.optimizer = library.Optimizer(dht=dht, run_id=f"{job['model']}-{job['part']}-{job['repeat']}", batch_size_per_step=batch,
                                      target_batch_size=batch * dist.get_world_size(), optimizer=run.optimizer, matchmaking_time=2.0,
                                      averaging_timeout=120.0, next_chunk_timeout=60.0, average_state_every=1 << 30, tracker_opts=refresh,
                                      averager_opts={"request_timeout": 1.5})
    try:
        yield AttachedHivemind(run, library.__version__)
        dist.barrier()
    finally:
        run.optimizer.shutdown()
        dht.shutdown()


SYSTEMS = {f.__name__: f for f in (alone, ddp, telegrad, local, torchft, hivemind)}


def endless(run):
    """This rank's batches, epoch after epoch."""
    return itertools.chain.from_iterable(run.batches() for _ in itertools.count())


def timed(attached, first, count, batches):
    """So many steps; returns [(ms, loss, batches)]."""
    found, begin = [], time.perf_counter()
    for number in range(first, first + count):
        loss, taken = attached.step(number, batches)
        now = time.perf_counter()
        found.append((1e3 * (now - begin), loss, taken))
        begin = now
    return found
