"""Training that runs into NaN: one line, and no checkpoint that holds any."""

from __future__ import annotations

from functools import partial
from itertools import product

import torch

from faults.world import NEW, Case, World, complaints, nothing_lost

TOO_MUCH = {
    "optim.lr": ("1e6", "1e30"),
    "lambda": ("1e25", "1e30"),
    "lambda_var": ("1e25", "1e30"),
    "teacher.lambda_kd": ("1e25", "1e30"),
}
HELD = ("0", "3", "4")
"""Updates without the weight, and then before the first validation, or after it."""
OTHERS = ("", "trainer.clip=0", "trainer.precision=bf16-mixed", "trainer.log_every=50")


def not_finite(world: World, few: bool) -> list[Case]:
    """Each option that makes a loss or an update too large, each with other options."""
    found = []
    for (option, values), hold, other in product(TOO_MUCH.items(), HELD, OTHERS):
        for value in values:
            given = [f"{option}={value}", f"objective.hold={hold}", *filter(None, [other])]
            if option == "teacher.lambda_kd":
                given.insert(0, "teacher=joint")
            found.append(Case(" ".join(given), partial(attempt, world, given)))
    return found


def attempt(world: World, given: list[str]) -> str:
    """Train in the place of an earlier run; then go on from what is there, with sound options."""
    world.fresh(world.earlier)
    answer = world.train(NEW, *given)
    said = complaints(answer) + nothing_lost(world)
    for path in world.here.rglob("*.ckpt"):
        weights = torch.load(path, weights_only=True)["state_dict"]
        if not all(value.isfinite().all() for value in weights.values()):
            said.append(f"{path.name} is not finite\n{answer}")
    if answer.status == 2 and "finite" not in answer.err:
        said.append(f"the line does not say what is wrong\n{answer}")
    sound = [each for each in given if not each.startswith(tuple(TOO_MUCH))]
    if answer.status == 2 and not given[0].startswith("optim"):
        sound += ["teacher.lambda_kd=0.1"] * ("teacher=joint" in given)
        again = world.train(NEW, *sound, "ckpt_path=last")
        said += complaints(again)
    return "\n".join(said)
