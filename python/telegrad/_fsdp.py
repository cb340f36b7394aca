"""The hook for FSDP2 (fully_shard): means between replicas, each of which is sharded over its own ranks."""
import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional

import torch
import torch.distributed
import telegrad
from telegrad import _c
from telegrad._checks import check_settings, check_text
from telegrad._errors import MismatchError, NonFiniteError, UnsupportedError, check
from telegrad._network import check_network
from telegrad._parts import VERSION, Kept, Methods, Part, check_parameter, cut, inherited, ratio_of, sent_by
from telegrad._refused import check_methods, enabled


class _Group:
    """The parameters that FSDP reduces together, and their parts."""

    def __init__(self, module: Any, path: str, names: List[str], parts: List[Part], n: int) -> None:
        self.module, self.path, self.names, self.parts, self.n = module, path, names, parts, n


class FsdpHook:
    """What `fsdp` registers: it averages the shards of a rank over the replicas. Its memory is kept by parameter name.

    >>> import torch, telegrad.torch                          # a job of one rank; torch.distributed is initialized
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.fsdp import fully_shard
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicas", "shards"))
    >>> model = fully_shard(torch.nn.Linear(100, 10), mesh=mesh["shards"])
    >>> net = telegrad.torch.Network(group=mesh["replicas"].get_group())
    >>> hook = telegrad.torch.fsdp(model, "topk:density=0.01", net)
    >>> model(torch.ones(4, 100)).sum().backward()
    >>> sorted(hook.stats())
    ['bytes_sent', 'ratio', 'skipped_steps', 'steps']
    >>> hook.load_state_dict(hook.state_dict())
    """

    def __init__(self, model: Any, methods: Methods, net: telegrad.Network, scaler: Any, seed: int, settings: Dict[str, Any]) -> None:
        self.spec, self.net, self._methods = methods.spec, net, methods
        self._model, self._scaler = model, scaler
        self._scale = 1.0 if scaler is None else float(scaler.get_scale())
        self._seed, self._settings = seed, settings
        self._groups: List[_Group] = []
        self._shard_group: Any = None
        self._memory = Kept()
        self._step = self._skipped = 0
        self._sent = 0  # bytes, before the state that was loaded
        self._ending: "Optional[weakref.ref[Callable[[], None]]]" = None  # what ends the step under way: see _begin_step
        self._device = torch.device("cpu")  # of the gradients that come to the hook
        self._refusal: Optional[NonFiniteError] = None
        self._failed: Optional[BaseException] = None
        names = {id(p): name for name, p in model.named_parameters()}
        for path, module in model.named_modules():
            get_state = getattr(module, "_get_fsdp_state", None)
            if get_state is not None:
                self._add(module, path or "(the model)", get_state(), names)

    def _add(self, module: Any, path: str, state: Any, names: Dict[int, str]) -> None:
        groups = getattr(state, "_fsdp_param_groups", None)
        if groups is None:  # PyTorch before 2.12 has at most one
            groups = [g for g in (state._fsdp_param_group,) if g is not None]
        if len(groups) > 1:
            raise UnsupportedError(f"model: {path} has {len(groups)} groups of parameters, because shard_placement_fn gives them different "
                                   "meshes; PyTorch takes no hook for such a module: allowed: one mesh for all parameters of a module",
                                   "TG_E_UNSUPPORTED")
        for group in groups:
            if group._is_hsdp:
                raise UnsupportedError(f"model: {path} has a mesh of replicas and shards (HSDP), so PyTorch itself averages over the "
                                       'replicas: allowed: the mesh of the shards alone, such as fully_shard(module, mesh=mesh["shards"])',
                                       "TG_E_UNSUPPORTED")
            self._shard_group = group.mesh_info.shard_process_group
            members = [p for p in group.fsdp_params if p.sharded_param.requires_grad]
            own = [names[id(p.sharded_param)] for p in members]
            sizes = [int(p.padded_sharded_param_size.numel()) for p in members]
            shapes = [tuple(p.padded_sharded_param_size) for p in members]
            self._groups.append(_Group(module, path, own, cut(self._methods, own, shapes, sizes), sum(sizes)))

    def _register(self) -> None:
        for index, group in enumerate(self._groups):
            group.module.set_all_reduce_hook(lambda shards, group=group, index=index: self._average(index, group, shards))

    # ---- in the backward pass ---------------------------------------------------------------------------------------

    def _average(self, index: int, group: _Group, shards: torch.Tensor) -> None:
        """Called with the gradients of a group, averaged over the shards of this replica. Blocks until the means are there, because
        FSDP uses them as soon as this returns: it divides and casts them, adds them to gradients that are there already, and calls
        hooks of the parameters. For tensors in host memory it has no stream or future to wait for. On a GPU the current stream is
        that of FSDP's own all-reduce: the mean is valid on it."""
        if self._failed is not None:
            raise self._failed
        if shards.numel() != group.n:
            raise UnsupportedError(f"module {group.path}: a step used only some of its parameters ({shards.numel()} of {group.n} "
                                   "elements): allowed: a step that uses all of them, or model.set_reduce_scatter_unused_params(True)",
                                   "TG_E_UNSUPPORTED")
        if self._ending is None or self._ending() is None:
            self._begin_step()
        self._device = shards.device
        if shards.is_cuda:  # FSDP may free it while its own stream still reads the mean
            shards.record_stream(torch.cuda.current_stream(shards.device))
        try:
            for i, part in enumerate(group.parts):
                if part.reducer is None:
                    seed = (self._seed * 1000003 + index + 8191 * i) % (1 << 64)
                    part.make_reducer(self.net, self._memory, self._scale, self._step, seed, self._settings, shards.device)
            started = []
            try:
                for part in group.parts:
                    part.start(shards)
                    started.append(part)
            finally:
                for part in started:
                    try:
                        part.wait(shards)
                    except NonFiniteError as error:
                        self._refusal = self._refusal or error
        except BaseException as error:
            self._failed = error
            raise

    def _begin_step(self) -> None:
        self._drop_step()
        self._refusal = None
        if self._scaler is not None:
            scale = float(self._scaler.get_scale())
            if scale != self._scale:
                for part in self._parts():
                    if part.reducer is not None:
                        check(_c.tg_reducer_scale(part.reducer.handle(), scale / self._scale))
                self._scale = scale

        def ending() -> None:  # the backward pass alone holds it: if that fails, it is gone, and was not called
            self._end_step()
        torch.autograd.Variable._execution_engine.queue_callback(ending)
        self._ending = weakref.ref(ending)

    def _drop_step(self) -> None:
        """If the last backward pass has failed, nobody applies the means that it did exchange: the step has not taken place."""
        if self._ending is None:
            return
        self._ending = None
        for part in self._parts():
            if part.reducer is not None:
                if part.used:
                    part.reducer.undo()
                check(_c.tg_reducer_set_step(part.reducer.handle(), self._step))
            part.used = False

    def _end_step(self) -> None:
        """FSDP has given the means to the parameters. If one of any rank was not finite, no rank applies any: what was sent for
        them returns to the memory."""
        self._ending = None
        self._step += 1
        bad = torch.tensor([0.0 if self._refusal is None else 1.0], device=self._device)
        if self._shard_group is not None:
            torch.distributed.all_reduce(bad, op=torch.distributed.ReduceOp.MAX, group=self._shard_group)
        if bool(bad.item()):
            self._skipped += 1
            for part in self._parts():
                if part.used and part.reducer is not None:
                    part.reducer.undo()
        for part in self._parts():
            part.used = False
        if not bool(bad.item()):
            return
        if self._scaler is None:
            raise self._refusal or NonFiniteError("a gradient of another shard is not finite: the error on the rank that has it names "
                                                  "the element")
        for p in self._model.parameters():
            if p.grad is not None:
                p.grad.to_local().fill_(float("inf"))

    def _parts(self) -> List[Part]:
        return [part for group in self._groups for part in group.parts]

    # ---- for the user -----------------------------------------------------------------------------------------------

    def state_dict(self) -> Dict[str, Any]:
        """The memory of this rank, by names of parameters, to be saved by each rank for itself. Call it between steps."""
        self._drop_step()
        return {**self._own(), "rank": self.net.rank, "size": self.net.size, "step": self._step, "skipped_steps": self._skipped,
                "bytes_sent": self._sent + sent_by(self._parts()), **self._memory.state(self._parts(), self._scale)}

    def load_state_dict(self, state: Any) -> None:
        """Continue from the `state_dict` of this rank, after the model's and the scaler's own: with the same bits. With another number
        of replicas, of as many shards, give each rank a list of what the ranks of all old replicas that had its shard saved, in order
        of replicas. Another number of shards is refused, because what a method remembers of a shard (factors of its matrix, say)
        means nothing for shards that are cut differently.

        Raises  MismatchError: it is of another rank, method, model or number of shards. Nothing has changed then
        """
        state = inherited(state, self.net, self._own())
        known = {name for group in self._groups for name in group.names}
        for name in state["memory"]:
            if name not in known:
                raise MismatchError(f"load_state_dict: the state has memory of the parameter {name!r}, which this model does not have")
        for part in self._parts():
            part.close()
            part.used = False
        self._ending = None
        self._memory.load(state)
        self._step, self._skipped, self._sent = int(state["step"]), int(state.get("skipped_steps", 0)), int(state.get("bytes_sent", 0))

    def _own(self) -> Dict[str, Any]:
        return {"version": VERSION, "shards": torch.distributed.get_world_size(self._shard_group),
                "shard": torch.distributed.get_rank(self._shard_group), "spec": self.spec, "rules": self._methods.rules}

    def stats(self) -> Dict[str, float]:
        """Figures so far: steps, skipped steps (a gradient was not finite), bytes that this rank has sent to other replicas in all of
        these steps, and the ratio of the gradient's size to that of its coded form in the last step. After load_state_dict they
        continue from the state's."""
        return {"steps": self._step, "skipped_steps": self._skipped, "bytes_sent": self._sent + sent_by(self._parts()),
                "ratio": ratio_of(self._parts())}


def fsdp(model: Any, spec: str, net: telegrad.Network, *, rules: Optional[Mapping[str, str]] = None, scaler: Any = None,
         optimizer: Any = None, seed: int = 0, total_steps: int = 0, steps_per_epoch: int = 0, timeout: float = 600,
         threads: int = 1) -> FsdpHook:
    """Average the gradients of an FSDP2 model over replicas in compressed form. All ranks call it, before the first step.

    Within a replica FSDP averages as always, over its fast network. Over the slow one, between the replicas, each rank
    exchanges its shard with the ranks that have the same shard:

        mesh = init_device_mesh("cpu", (replicas, shards), mesh_dim_names=("replicas", "shards"))
        fully_shard(model, mesh=mesh["shards"])
        net = telegrad.torch.Network(group=mesh["replicas"].get_group())
        hook = telegrad.torch.fsdp(model, "qsgd:bits=4", net)

    model      a model to which fully_shard was applied (PyTorch 2.6 or newer), over the mesh of the shards alone. All replicas
               begin with the same parameters
    net        the ranks of all replicas that have the same shard
    scaler     if a gradient on some rank is not finite, all ranks get infinite gradients, the scaler skips the step on each, and
               the memory stays. Without a scaler the backward pass then raises NonFiniteError on each
    the others as for telegrad.torch.ddp

    The backward pass waits for each module's exchange, because FSDP uses a gradient as soon as the hook returns. So the exchange
    does not overlap with it, and a method that sends little counts for more than with `ddp`.

    >>> import torch, telegrad.torch                          # a job of one rank; torch.distributed is initialized
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from torch.distributed.fsdp import fully_shard
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicas", "shards"))
    >>> model = fully_shard(torch.nn.Linear(100, 10), mesh=mesh["shards"])
    >>> net = telegrad.torch.Network(group=mesh["replicas"].get_group())
    >>> hook = telegrad.torch.fsdp(model, "topk:density=0.01", net, rules={"bias": "dense"})
    >>> model(torch.ones(4, 100)).sum().backward()
    >>> int((model.weight.grad.to_local() != 0).sum()), hook.stats()["steps"]
    (10, 1)
    """
    if not hasattr(model, "set_all_reduce_hook"):
        raise UnsupportedError(f"model: a {type(model).__name__}: allowed: a model of fully_shard, of PyTorch 2.6 or newer",
                               "TG_E_UNSUPPORTED")
    check_text("spec", spec)
    check_network(net)
    check_settings(seed, total_steps, steps_per_epoch, timeout, threads)
    scaler = enabled(scaler)
    parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for name, p in parameters.items():
        if not hasattr(p, "to_local"):
            raise UnsupportedError(f"parameter {name}: it is not sharded: allowed: fully_shard applied to the whole model as well",
                                   "TG_E_UNSUPPORTED")
        check_parameter(name, p)
    if any(p.is_cuda for p in parameters.values()):
        check(_c.tg_cuda_attach())
    settings = {"total_steps": total_steps, "steps_per_epoch": steps_per_epoch, "timeout": timeout, "threads": threads}
    every = dict(model.named_parameters())
    methods = Methods(spec, rules, list(every), **settings)
    check_methods(methods, scaler, False)
    methods.check_optimizer(optimizer, net.rank, list(every.values()))
    hook = FsdpHook(model, methods, net, scaler, seed, settings)
    shards, ranks = torch.distributed.get_world_size(hook._shard_group), torch.distributed.get_world_size()
    if shards * net.size != ranks:
        raise MismatchError(f"net: {net.size} replicas of {shards} shards each, but the job has {ranks} ranks: allowed: a network of the "
                            'ranks that have the same shard, such as Network(group=mesh["replicas"].get_group())')
    hook._register()
    return hook
