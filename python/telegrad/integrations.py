"""telegrad in Accelerate, Transformers' Trainer and Lightning: each finds the DistributedDataParallel that the framework makes, and
gives it the hook of telegrad.torch.ddp.

    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    hook = telegrad.integrations.accelerate(accelerator, model, "topk:density=0.01")

    trainer = transformers.Trainer(...)
    telegrad.integrations.trainer(trainer, "topk:density=0.01")

    lightning.Trainer(strategy=telegrad.integrations.lightning("topk:density=0.01"), ...)
"""
import os
import warnings
from typing import Any, List, Optional

import torch
import torch.distributed
import telegrad
import telegrad.torch
from telegrad._errors import ArgumentError, StateError

__all__ = ["accelerate", "lightning", "trainer"]


def accelerate(accelerator: Any, model: Any, spec: str, net: Optional[telegrad.Network] = None, **settings: Any) -> telegrad.torch.DdpHook:
    """Exchange the gradients of a model that `accelerator.prepare` has returned. All ranks call it, before the first step.

    net       None: a new telegrad.torch.Network()
    settings  as for telegrad.torch.ddp; `scaler` is the accelerator's own

    >>> import accelerate, torch, telegrad.integrations       # in a job of several ranks: accelerate launch or torchrun
    >>> accelerator = accelerate.Accelerator(cpu=True)
    >>> model = accelerator.prepare(torch.nn.Linear(100, 10))
    >>> hook = telegrad.integrations.accelerate(accelerator, model, "topk:density=0.01")
    >>> accelerator.backward(model(torch.ones(4, 100)).sum())
    >>> hook.stats()["steps"]
    1
    """
    from torch.nn.parallel import DistributedDataParallel
    if not isinstance(getattr(model, "_orig_mod", model), DistributedDataParallel):  # of torch.compile
        raise ArgumentError(f"model: a {type(model).__name__}: allowed: what accelerator.prepare(model) returns in a job of several ranks, a "
                            "DistributedDataParallel (was the job started by accelerate launch or torchrun?)")
    return telegrad.torch.ddp(model, spec, net or telegrad.torch.Network(), scaler=getattr(accelerator, "scaler", None), **settings)


class _Memory:
    """The hook's memory beside the Trainer's checkpoints."""

    def __init__(self, spec: str, net: Optional[telegrad.Network], settings: Any) -> None:
        self.spec, self.net, self.settings = spec, net, settings
        self.hook: Optional[telegrad.torch.DdpHook] = None
        self.model: Any = None  # which has the hook

    def file(self, arguments: Any, step: int, rank: int) -> str:
        return os.path.join(arguments.output_dir, f"checkpoint-{step}", f"telegrad-{rank}.pt")

    def load(self, arguments: Any, step: int) -> None:
        """Continue from the files of a checkpoint, of any number of ranks. If no rank has one, the memory begins empty."""
        assert self.hook is not None
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        own, first = self.file(arguments, step, rank), self.file(arguments, step, 0)
        seen = [path for path in (own, first) if os.path.exists(path)]
        saved = torch.load(seen[0]) if seen else {}
        before = int(saved.get("ranks", saved.get("size", size)))
        alike = before == size and saved.get("size", self.hook.net.size) == self.hook.net.size  # the same nodes, too
        needed = [own] if alike else [self.file(arguments, step, old) for old in range(before)]
        found: List[Any] = [None] * size
        torch.distributed.all_gather_object(found, (bool(seen), [path for path in needed if not os.path.exists(path)]))
        if not any(sees for sees, _ in found):
            if rank == 0:
                warnings.warn(f"the memory of {self.spec} begins empty at step {step}, because there is no {own}: to keep it, resume from "
                              "a checkpoint in output_dir that has the files telegrad-RANK.pt")
            return
        for other, (_, missing) in enumerate(found):
            if missing:
                raise StateError(f"rank {other} does not find {os.path.basename(missing[0])} in {os.path.dirname(own)}: allowed: the files "
                                 "of all ranks that saved, or of none")
        self.hook.load_state_dict(torch.load(own) if alike else (torch.load(path) for path in needed))


def trainer(trainer: Any, spec: str, net: Optional[telegrad.Network] = None, **settings: Any) -> None:
    """Exchange the gradients of a transformers.Trainer. Call it on all ranks before `trainer.train`.

    Each checkpoint gets a file telegrad-RANK.pt beside the model's, from which `trainer.train(resume_from_checkpoint=True)`
    in output_dir continues, with any number of ranks. If no rank finds a file there, the memory begins empty, with a warning. net and
    settings as for `accelerate`.

    >>> import torch, transformers, telegrad.integrations     # in a job of several ranks
    >>> shape = dict(vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16)
    >>> model = transformers.BertForSequenceClassification(transformers.BertConfig(**shape))
    >>> rows = [{"input_ids": torch.arange(5), "labels": torch.tensor(1)}] * 64
    >>> arguments = transformers.TrainingArguments(use_cpu=True, ddp_backend="gloo", max_steps=3, save_strategy="no", disable_tqdm=True)
    >>> trainer = transformers.Trainer(model, arguments, train_dataset=rows)
    >>> telegrad.integrations.trainer(trainer, "topk:density=0.01")
    >>> result = trainer.train()                              # doctest: +ELLIPSIS
    {'train_runtime': ...}
    >>> trainer.telegrad_stats["steps"]
    3
    """
    import transformers
    kept = _Memory(spec, net, settings)

    class Callback(transformers.TrainerCallback):  # type: ignore[misc,unused-ignore]
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if kept.hook is None or kept.model is not trainer.model_wrapped:
                kept.hook = accelerate(trainer.accelerator, trainer.model_wrapped, kept.spec, kept.net, **kept.settings)
                kept.model = trainer.model_wrapped  # that of a second trainer.train(), too
            if state.global_step > 0:
                kept.load(args, state.global_step)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            path = kept.file(args, state.global_step, torch.distributed.get_rank())
            if kept.hook is not None:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                torch.save(kept.hook.state_dict(), path)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            trainer.telegrad_stats = None if kept.hook is None else kept.hook.stats()
    trainer.add_callback(Callback())


def lightning(spec: str, **settings: Any) -> Any:
    """A strategy for lightning.Trainer: DDPStrategy with the hook of telegrad.torch.ddp, whose figures are
    `trainer.strategy.telegrad.stats()`. Lightning's own `ddp_comm_hook` is ignored without CUDA.

    settings  as for telegrad.torch.ddp (but `net`, which it makes itself, and `node`) and, with other names, for DDPStrategy

    >>> import lightning, torch, telegrad.integrations        # lightning.Trainer starts the ranks, or torchrun
    >>> class Model(lightning.LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(100, 10)
    ...     def training_step(self, batch):
    ...         return self.layer(batch).sum()
    ...     def configure_optimizers(self):
    ...         return torch.optim.SGD(self.parameters(), 0.1)
    >>> strategy = telegrad.integrations.lightning("topk:density=0.01", process_group_backend="gloo")
    >>> trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy=strategy, max_steps=3, logger=False,
    ...                             enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    >>> trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(48, 100), batch_size=4))
    >>> trainer.strategy.telegrad.stats()["steps"]
    3
    """
    try:
        from lightning.pytorch.strategies import DDPStrategy
    except ImportError:
        from pytorch_lightning.strategies import DDPStrategy  # type: ignore[no-redef,import-not-found,unused-ignore]
    names = ("rules", "optimizer", "seed", "total_steps", "steps_per_epoch", "timeout", "threads")
    if "node" in settings:
        raise ArgumentError("node: not with Lightning: allowed: telegrad.torch.ddp, or telegrad.integrations.accelerate with net=")
    own = {name: settings.pop(name) for name in names if name in settings}

    class TelegradStrategy(DDPStrategy):  # type: ignore[misc,unused-ignore]
        telegrad: telegrad.torch.DdpHook

        def _register_ddp_hooks(self) -> None:
            scaler = getattr(self.precision_plugin, "scaler", None)
            self.telegrad = telegrad_hook(self.model, scaler)

    def telegrad_hook(model: Any, scaler: Any) -> telegrad.torch.DdpHook:
        return telegrad.torch.ddp(model, spec, telegrad.torch.Network(), scaler=scaler, **own)
    return TelegradStrategy(**settings)
