"""Recipes: when a training run saves checkpoints, and what it does with them at the end."""

import dataclasses

from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import HPARAMS


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a training run does besides its steps.

    Args:
      save_checkpoints_secs: seconds between checkpoints; the training option of the same name overrides it.
      averages: whether to average the last `average_checkpoints` checkpoints at the end.
      split: the split to evaluate at the end.
    """

    save_checkpoints_secs: int = 600
    averages: bool = True
    split: str = "test"

    def __post_init__(self) -> None:
        if self.split not in ("dev", "test"):
            raise UserError(f"recipe: split={self.split} is unknown; use dev or test", status=2)
        if not isinstance(self.save_checkpoints_secs, int) or self.save_checkpoints_secs < 1:
            raise UserError(
                f"recipe: save_checkpoints_secs={self.save_checkpoints_secs} must be a whole number of seconds above 0"
            )


# Section 6.1 of the paper: a checkpoint every 10 minutes; the last 5 are averaged, or 20 for big models.
RECIPES = {"paper": Recipe()}
NONE = "none"


def choose_recipe(recipe: str | Recipe | None, hparams_set: str | None) -> Recipe | None:
    """Returns the given recipe, else the recipe of the hyperparameter set, else None.

    "none" means no recipe, even if the set has one. `HPARAMS.register(name=..., recipe="paper")` gives any set a
    recipe. Raises a UserError if the recipe does not exist.
    """
    if recipe is None and hparams_set is not None:
        HPARAMS.check(hparams_set)
        recipe = HPARAMS.fact(hparams_set, "recipe", None)
    if recipe is None or recipe == NONE or isinstance(recipe, Recipe):
        return recipe if isinstance(recipe, Recipe) else None
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise UserError(f"`recipe={recipe}` is unknown{nearest(str(recipe), [*RECIPES, NONE])}", status=2)
    return RECIPES[recipe]
