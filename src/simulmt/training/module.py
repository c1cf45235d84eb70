"""The LightningModule: training step, validation step, optimiser."""

import math
import time
from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import pytorch_lightning as pl
import torch
from jaxtyping import Float, Int
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor

from simulmt.attention import Moment
from simulmt.models.model import Model
from simulmt.objective import Loss, Objective
from simulmt.objective.batch import Batch
from simulmt.options import Config
from simulmt.training.compiled import compiled_model
from simulmt.training.finite import FiniteUpdates, check_parameters
from simulmt.training.optimiser import Adam
from simulmt.training.plan import TrainingPlan


class Frozen(NamedTuple):
    """The parameters that the first updates leave as they are."""

    names: frozenset[str] = frozenset()
    updates: int = 0


class TranslationModule(pl.LightningModule):
    """Trains a model on an objective.

    The losses of a batch are sums; gradients are divided by the number of target tokens just
    before the optimiser's step, over all accumulated batches and all processes.

    Args:
        model: the translation model.
        objective: the objective that is minimised.
        plan: gives the number of updates, for curricula, and how steps run.
        optimiser: Adam's settings and learning rate.
        passport: stored in every checkpoint beside the weights.
        seed: seed of dropout, noise and random policies.
        frozen: the parameters that the first updates leave as they are.
    """

    def __init__(
        self,
        *,
        model: Model,
        objective: Objective,
        plan: TrainingPlan,
        optimiser: Adam,
        passport: Config,
        seed: int,
        frozen: Frozen,
    ) -> None:
        super().__init__()
        self.model = model
        if plan.recompute:
            model.recompute_layers()
        self.objective = objective
        self.plan = plan
        self.optimiser = optimiser
        self.passport = passport
        self.seed = seed
        self.frozen = frozen
        self._training = compiled_model(model) if plan.compile else nullcontext
        self._finite = FiniteUpdates(plan.skip)
        # of the update, on the loss's device
        self._tokens, self._loss = torch.zeros((), dtype=torch.int64), torch.zeros(())
        self._clock: tuple[float, Tensor | int] = (time.perf_counter(), 0)
        self._since = torch.zeros(2)  # tokens and loss of all processes since `mean_loss`
        self._mean = math.nan

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the sum of the batch's losses; `configure_gradient_clipping` divides.

        Every batch of every process has its own random stream, so that a resumed run draws
        the same numbers as an uninterrupted one.
        """
        batches = self.trainer.fit_loop.epoch_loop.total_batch_idx
        stream = np.random.SeedSequence((self.seed, self.global_rank, batches))
        torch.manual_seed(int(stream.generate_state(1, np.uint64)[0] >> 1))
        draw = sentence_draws(self.seed, self.global_step, batch.index)
        lengths = batch.target_mask.sum(-1), batch.source_lengths
        moment = Moment(self.global_step, self.plan.max_updates, draw, *lengths)
        with self._training():
            loss: Loss = self.objective(self.model, batch, moment)
        self._tokens, self._loss = self._tokens + loss.tokens, self._loss + loss.total.detach()
        accumulate = self.trainer.accumulate_grad_batches
        if (batch_idx + 1) % accumulate == 0:
            self._log(loss)
        return loss.total * accumulate  # Lightning divides by `accumulate`

    def _log(self, loss: Loss) -> None:
        """Log every `trainer.log_every`-th update, from its last batch."""
        started, seen = self._clock
        self._clock = (started, seen + self._tokens)
        if (self.global_step + 1) % self.trainer.log_every_n_steps:  # type: ignore[attr-defined]
            return
        skipped = self._finite.skipped()
        now = time.perf_counter()
        self._clock = (now, 0)
        tokens = int(loss.tokens)
        rate = int(seen + self._tokens) / max(now - started, 1e-9) * self.trainer.world_size
        values = {
            **{name: float(value) / tokens for name, value in loss.per_token.items()},
            "lr": self.optimiser.lr(self.global_step),
            "tokens_per_s": rate,
            **{name: float(value) / loss.sentences for name, value in loss.per_sentence.items()},
        }
        if self.plan.skip:
            values["skipped"] = float(skipped)
        if self.model.mechanism.learned:
            values |= self.objective.weights(self.global_step)
        for name, value in values.items():
            self.log(f"train/{name}", value, prog_bar=True, sync_dist=True)

    def configure_gradient_clipping(
        self, optimizer: torch.optim.Optimizer, *_: object, **__: object
    ) -> None:
        """Divide the gradient by the number of target tokens, and clip it.

        An update that is not finite changes no weight and no moment.
        """
        if self.global_step < self.frozen.updates:  # clipping must not count these gradients
            for name, parameter in self.model.named_parameters():
                if name in self.frozen.names:
                    parameter.grad = None
        sums = torch.stack([self._tokens.float(), self._loss.float()])
        count, total = self.trainer.strategy.reduce(sums, reduce_op="sum").unbind()
        self._tokens, self._loss = torch.zeros_like(self._tokens), torch.zeros_like(self._loss)
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        # undo DDP's average over the ranks; `count` stays on the device, so nothing waits for it
        mean = self.trainer.world_size / count
        for gradient in gradients:
            gradient.mul_(mean)
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.plan.clip:
            torch.nn.utils.clip_grads_with_norm_(self.parameters(), self.plan.clip, norm)
        bad = self._finite.found_inf(self.global_step + 1, total / count, norm)
        optimizer.found_inf = bad  # type: ignore[attr-defined]  # of fused Adam
        self._since = self._since.to(sums) + sums.where(bad == 0, 0)

    def mean_loss(self) -> float:
        """Return the mean loss of a token since the last call, or again, without an update."""
        tokens, loss = self._since.tolist()
        if tokens:
            self._since, self._mean = torch.zeros(2), loss / tokens
        return self._mean

    def on_validation_start(self) -> None:
        """Reject numbers that are not finite before a checkpoint holds them; reset the sums."""
        self._paused = time.perf_counter()
        self._finite.skipped()  # raises if there were too many
        check_parameters(self.model, self.global_step)
        self._dev_sums = torch.zeros(2, device=self.device, dtype=torch.float64)

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Add up the likelihood of the development set under teacher forcing."""
        lengths = batch.target_mask.sum(-1), batch.source_lengths
        moment = Moment(self.global_step, self.plan.max_updates, None, *lengths)
        loss = self.objective(self.model, batch, moment)
        self._dev_sums += torch.stack([loss.per_token["nll"].double(), loss.tokens.double()])

    def on_validation_epoch_end(self) -> None:
        """Log the development likelihood in nats per token, over all processes."""
        nll, tokens = self.trainer.strategy.reduce(self._dev_sums, reduce_op="sum").tolist()
        self.log("valid/nll", nll / tokens, rank_zero_only=False)

    def on_validation_end(self) -> None:
        """Leave the validation out of the speed."""
        started, seen = self._clock
        self._clock = (started + time.perf_counter() - self._paused, seen)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Return Adam and its learning-rate schedule, which steps at every update."""
        settings = self.optimiser
        adam = torch.optim.Adam(
            self.parameters(),
            lr=settings.rate.lr,
            betas=(float(settings.beta1), float(settings.beta2)),  # torch rejects an int
            eps=settings.eps,
            fused=True,
        )
        rate = torch.optim.lr_scheduler.LambdaLR(adam, settings.rate.factor)
        return {"optimizer": adam, "lr_scheduler": {"scheduler": rate, "interval": "step"}}

    def on_save_checkpoint(self, checkpoint: dict[str, object]) -> None:
        """Store the passport beside the weights."""
        checkpoint["simulmt"] = self.passport


def sentence_draws(seed: int, update: int, index: Int[Tensor, "B"]) -> Float[Tensor, "B"]:
    """Return a random number in [0, 1) for each sentence.

    A number depends on the seed, the update and the sentence's place in its split, but not on the
    batch or the rank. The numbers are hashes (SplitMix64; Steele et al. 2014), computed where
    `index` is.
    """
    key = int(np.random.SeedSequence((seed, update)).generate_state(1, np.uint64)[0])
    x = (index + 1) * _signed(0x9E3779B97F4A7C15) + _signed(key)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift & (1 << 64 - shift) - 1)) * _signed(factor)
    x = x ^ (x >> 31 & (1 << 33) - 1)
    return (x >> 40 & (1 << 24) - 1).float() / (1 << 24)  # the 24 bits that float32 holds


def _signed(word: int) -> int:
    """Return a 64-bit word as a signed integer, as torch needs it."""
    return word - (1 << 64) if word >> 63 else word
