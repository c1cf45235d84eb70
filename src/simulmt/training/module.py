"""The LightningModule: one training step, one validation step, one optimiser."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor

from simulmt.data.batches import Batch
from simulmt.models.model import Model
from simulmt.objective import Loss, Objective
from simulmt.teacher import Guidance, Teacher
from simulmt.training.optimiser import Adam


class TranslationModule(pl.LightningModule):
    """Trains a model on an objective.

    The losses of a batch are sums; gradients are divided by the number of target tokens just
    before the optimiser's step, over all accumulated batches and all processes.

    Args:
        model: the translation model.
        objective: what is minimised.
        teacher: what is minimised beside it, for the encoder's sake.
        optimiser: Adam's settings and learning rate.
        passport: what travels with every checkpoint besides the weights.
        seed: of dropout and noise.
    """

    def __init__(
        self,
        *,
        model: Model,
        objective: Objective,
        teacher: Teacher,
        optimiser: Adam,
        passport: dict[str, Any],
        seed: int,
    ) -> None:
        super().__init__()
        self.model = model
        self.objective = objective
        self.teacher = teacher
        self.optimiser = optimiser
        self.passport = passport
        self.seed = seed
        self._tokens = torch.zeros((), dtype=torch.int64)  # of an update, where the loss is
        self._dev_sums = torch.zeros(2)
        self._clock: tuple[float, Tensor | int] = (time.perf_counter(), 0)

    def _loss(self, batch: Batch) -> Loss:
        states = self.model.encode(batch.source, batch.source_mask)
        return self._loss_on(states, batch)

    def _loss_on(self, states: Tensor, batch: Batch) -> Loss:
        out = self.model.decode(states, batch.source_mask, batch.target_input)
        return self.objective(
            out.logits,
            out.alphas,
            batch.target,
            batch.source_mask,
            batch.target_mask,
            self.global_step,
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Sum of the batch's losses; see `on_before_optimizer_step` for the division.

        Every batch of every process has a random stream of its own, so that a resumed run draws
        what it would have drawn.
        """
        batches = self.trainer.fit_loop.epoch_loop.total_batch_idx
        stream = np.random.SeedSequence((self.seed, self.global_rank, batches))
        torch.manual_seed(int(stream.generate_state(1, np.uint64)[0] >> 1))
        states = self.model.encode(batch.source, batch.source_mask)
        loss = self._loss_on(states, batch)
        guidance: Guidance = self.teacher(batch, states)
        self._tokens = self._tokens + loss.tokens
        accumulate = self.trainer.accumulate_grad_batches
        if (batch_idx + 1) % accumulate == 0:
            self._watch(loss, guidance)
        return (loss.total + guidance.total) * accumulate  # Lightning divides by it

    def _watch(self, loss: Loss, guidance: Guidance) -> None:
        """Log one update in so many, from its last batch."""
        started, seen = self._clock
        self._clock = (started, seen + self._tokens)
        if (self.global_step + 1) % self.trainer.log_every_n_steps:  # type: ignore[attr-defined]
            return
        now = time.perf_counter()
        self._clock = (now, 0)
        tokens = int(loss.tokens)
        rate = int(seen + self._tokens) / max(now - started, 1e-9) * self.trainer.world_size
        strength = self.objective.strength(self.global_step)
        values = {
            "train/loss": float(loss.total.detach()) / tokens,
            "train/nll": float(loss.nll) / tokens,
            "train/lr": self.optimiser.lr(self.global_step),
            "train/tokens_per_s": rate,
        }
        if loss.learned:
            values["train/latency"] = float(loss.latency) / loss.sentences
            values["train/variance"] = float(loss.variance) / loss.sentences
            values["train/lambda"] = self.objective.latency_weight * strength
        values |= {f"train/{name}": value for name, value in guidance.figures(tokens).items()}
        for name, value in values.items():
            self.log(name, value, prog_bar=True, sync_dist=True)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Turn the gradient of the sum into that of the mean over target tokens."""
        count = self.trainer.strategy.reduce(self._tokens.float(), reduce_op="sum")
        self._tokens = torch.zeros_like(self._tokens)
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        # DDP has averaged the gradients of the ranks: undo that; nobody waits for the count
        torch._foreach_mul_(gradients, self.trainer.world_size / count)

    def on_validation_epoch_start(self) -> None:
        """Forget the last validation."""
        self._dev_sums = torch.zeros(2, device=self.device, dtype=torch.float64)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add up what teacher forcing says of the development set."""
        loss = self._loss(batch)
        self._dev_sums += torch.stack([loss.nll.double(), loss.tokens.double()])

    def on_validation_epoch_end(self) -> None:
        """Log the development likelihood in nats per token, over all processes."""
        nll, tokens = self.trainer.strategy.reduce(self._dev_sums, reduce_op="sum").tolist()
        self.log("valid/nll", nll / tokens, rank_zero_only=False)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Adam and its learning rate, stepped at every update."""
        settings = self.optimiser
        adam = torch.optim.Adam(
            self.parameters(),
            lr=settings.rate.lr,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            foreach=True,
        )
        rate = torch.optim.lr_scheduler.LambdaLR(adam, settings.rate.factor)
        return {"optimizer": adam, "lr_scheduler": {"scheduler": rate, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Put the passport beside the weights."""
        checkpoint["simulmt"] = self.passport
