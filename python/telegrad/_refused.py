"""What ddp and fsdp refuse before the first step: models, and methods that do not go with them or with a GradScaler."""
from typing import Any, Dict, Set

import torch
import torch.distributed
import telegrad
from telegrad._errors import ArgumentError, MismatchError, UnsupportedError
from telegrad._parts import Methods, check_parameter


def ddp_of(model: Any) -> Any:
    """The DistributedDataParallel that the user means."""
    from torch.nn.parallel import DistributedDataParallel
    model = getattr(model, "_orig_mod", model)  # of torch.compile
    if not isinstance(model, DistributedDataParallel):
        raise ArgumentError(f"model: a {type(model).__name__}: allowed: a torch.nn.parallel.DistributedDataParallel")
    return model


def trained_names(model: Any) -> Set[str]:
    """The parameters of the model's buckets."""
    return {name for name, p in model.module.named_parameters() if p.requires_grad and name not in model.parameters_to_ignore}


def check_ranks(model: Any, net: telegrad.Network) -> None:
    rank, size = torch.distributed.get_rank(model.process_group), torch.distributed.get_world_size(model.process_group)
    if net.size != size or net.rank != rank:
        raise MismatchError(f"net: rank {net.rank} of {net.size}, but the model's process group has rank {rank} of {size}: allowed: a network "
                            "of the same ranks")


def check_model(model: Any, parameters: Dict[str, torch.Tensor]) -> None:
    """Options of DistributedDataParallel, and gradients."""
    if getattr(model, "mixed_precision", None) is not None:
        raise UnsupportedError("model: DistributedDataParallel(mixed_precision=...) has a communication hook of its own: allowed: "
                               "a model without it (autocast and bfloat16 parameters work)", "TG_E_UNSUPPORTED")
    if getattr(model, "_use_python_reducer", False):
        raise UnsupportedError('model: torch._dynamo.config.optimize_ddp="python_reducer" does not call communication hooks: allowed: '
                               "its other values", "TG_E_UNSUPPORTED")
    if getattr(model, "skip_all_reduce_unused_params", False):
        raise UnsupportedError("model: DistributedDataParallel(skip_all_reduce_unused_params=True) does not give all buckets to communication "
                               "hooks: allowed: False", "TG_E_UNSUPPORTED")
    check_ending(model)
    for name, p in parameters.items():
        check_parameter(name, p)
    for path, module in model.module.named_modules():
        if getattr(module, "sparse", False) is True and isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
            raise UnsupportedError(f"parameter {path + '.' if path else ''}weight: its gradient is sparse: allowed: "
                                   f"{type(module).__name__}(..., sparse=False)", "TG_E_UNSUPPORTED")


def check_ending(model: Any) -> None:
    """What may be set between steps."""
    if getattr(model, "_require_manual_backward_finalization", False):
        raise UnsupportedError("model: require_manual_backward_finalization=True: the hook must know when DistributedDataParallel has its "
                               "means, the end of the backward pass: allowed: False", "TG_E_UNSUPPORTED")


# Settings in units of the gradient: they would mean something else at each loss scale.
_IN_UNITS = {"dgc": ("clip",), "csc": ("clip",), "2bit": ("threshold", "start"), "strom": ("threshold", "start")}


def enabled(scaler: Any) -> Any:
    """The scaler; None if it does nothing: it would not skip a step whose gradients are infinite."""
    if scaler is not None and not hasattr(scaler, "get_scale"):
        raise ArgumentError(f"scaler: a {type(scaler).__name__}: allowed: a GradScaler")
    return scaler if scaler is None or getattr(scaler, "is_enabled", lambda: True)() else None


def check_methods(methods: Methods, scaler: Any, finds_unused: bool) -> None:
    """scaler: one that is enabled, or None"""
    for spec in (methods.spec, *methods.rules.values()):
        method, _, settings = spec.partition(":")
        if method == "fetchsgd" and finds_unused:
            raise ArgumentError("model: find_unused_parameters=True with fetchsgd, whose memory is of whole buckets and cannot leave out a "
                                "parameter: allowed: find_unused_parameters=False, or another method")
        if method == "fetchsgd" and scaler is not None:
            raise ArgumentError("scaler: with fetchsgd, whose memory does not follow the loss scale: allowed: no scaler (bfloat16 needs none), or "
                                "another method")
        for key, _, value in (setting.partition("=") for setting in settings.split(",")):
            if scaler is not None and key in _IN_UNITS.get(method, ()) and value != "auto" and float(value) > 0:
                usual = "clip=0" if key == "clip" else "threshold=auto without start"
                raise ArgumentError(f"scaler: with {method}:{key}={value}, which is in units of the gradient, but the hook gets "
                                    f"gradients times the loss scale: allowed: {usual}, or no scaler (bfloat16 needs none)")
