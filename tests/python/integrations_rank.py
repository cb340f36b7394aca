"""One rank of integrations_test.py: RANK SIZE PORT WHAT FOLDER [help], of which WHAT is a framework. With help, it runs the example in
the help instead."""
import doctest
import hashlib
import os
import sys
import warnings

import torch
import torch.distributed as dist

RANK, SIZE, PORT, WHAT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=PORT, RANK=str(RANK), WORLD_SIZE=str(SIZE), LOCAL_RANK=str(RANK),
                  ACCELERATE_USE_CPU="true", LOCAL_WORLD_SIZE=str(SIZE))
SPEC = "topk:density=0.05"


def data(count=64):
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(count, 16, generator=generator)
    return x, x[:, :4].argmax(1)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]


def run_accelerate(folder):
    from accelerate import Accelerator
    import telegrad.integrations
    accelerator = Accelerator(cpu=True)
    model = network()
    x, y = data()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    try:
        telegrad.integrations.accelerate(accelerator, model, SPEC)
        raise AssertionError("no error")
    except telegrad.ArgumentError as error:
        assert "accelerator.prepare" in str(error)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1), loader)
    hook = telegrad.integrations.accelerate(accelerator, model, SPEC)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.cross_entropy(model(x), y))
        optimizer.step()
    return model.module, hook.stats()


def run_transformers(folder):
    import transformers
    import telegrad.integrations

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def forward(self, x, labels):
            logits = self.layers(x)
            return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}

    class Rows(torch.utils.data.Dataset):
        x, y = data()

        def __len__(self):
            return len(self.x)

        def __getitem__(self, i):
            return {"x": self.x[i], "labels": self.y[i]}

    def trained(steps, resume):
        arguments = transformers.TrainingArguments(folder, use_cpu=True, max_steps=steps, save_steps=4, per_device_train_batch_size=4,
                                                   report_to=[], disable_tqdm=True, logging_strategy="no", ddp_backend="gloo",
                                                   lr_scheduler_type="constant", learning_rate=0.01)
        trainer = transformers.Trainer(Net(), arguments, train_dataset=Rows())
        telegrad.integrations.trainer(trainer, SPEC)
        trainer.train(resume_from_checkpoint=resume)
        return trainer
    if SIZE != 2:  # continued from what two ranks have saved
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*begins empty.*")
            trainer = trained(12, os.path.join(folder, "checkpoint-8"))
        return trainer.model, trainer.telegrad_stats
    trained(4, None)
    assert os.path.exists(os.path.join(folder, "checkpoint-4", f"telegrad-{RANK}.pt"))
    checkpoint = os.path.join(folder, "checkpoint-4")
    own = os.path.join(checkpoint, f"telegrad-{RANK}.pt")
    for missing in ((1,), (0, 1)):
        if RANK in missing:
            os.rename(own, own + ".aside")
        dist.barrier()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                trained(5, checkpoint)
                error = None
            except telegrad.StateError as e:
                error = e
        texts = [str(w.message) for w in warned if "begins empty" in str(w.message)]
        if len(missing) == 1:
            assert "rank 1 does not find telegrad-1.pt" in str(error) and not texts, (error, texts)
        else:
            assert error is None and len(texts) == (RANK == 0), (error, texts)
        dist.barrier()
        if RANK in missing:
            os.rename(own + ".aside", own)
    dist.barrier()
    trainer = trained(8, checkpoint)
    return trainer.model, trainer.telegrad_stats


def run_lightning(folder):
    import lightning
    import telegrad.integrations

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = network()

        def training_step(self, batch):
            return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=4)
    trainer = lightning.Trainer(strategy=telegrad.integrations.lightning(SPEC, process_group_backend="gloo"), max_steps=8,
                                accelerator="cpu", devices=SIZE, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                                enable_model_summary=False, default_root_dir=folder)
    model = Net()
    trainer.fit(model, loader)
    return model, trainer.strategy.telegrad.stats()


def run_help():
    """Ranks other than 0 may print less."""
    import telegrad.integrations
    name = {"transformers": "trainer"}.get(WHAT, WHAT)
    [test] = doctest.DocTestFinder(recurse=False).find(getattr(telegrad.integrations, name), name, module=False, globs={})
    checker = doctest.OutputChecker()
    if RANK > 0:
        checker.check_output = lambda *_: True
    result = doctest.DocTestRunner(checker).run(test)
    assert result.failed == 0 and result.attempted > 4, result
    print(WHAT, "helps")


def main():
    folder = sys.argv[5]
    if len(sys.argv) > 6:
        os.chdir(folder)
        run_help()
        return
    model, stats = globals()[f"run_{WHAT}"](folder)
    assert stats["ratio"] > 3 and stats["skipped_steps"] == 0, stats
    print(WHAT, int(stats["steps"]), digest(model), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
