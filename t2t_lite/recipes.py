"""Recipes: what a training does beside its steps: when it saves, and what becomes of its checkpoints at the end."""

import dataclasses

from t2t_lite.errors import UserError, nearest
from t2t_lite.registry import HPARAMS


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What a training does beside its steps.

    Args:
      save_checkpoints_secs: seconds between checkpoints, if the trainer gets no save_checkpoints_secs.
      averages: whether the last checkpoints are averaged at the end, `average_checkpoints` of the settings.
      split: the split that is evaluated at the end.
    """

    save_checkpoints_secs: int = 600
    averages: bool = True
    split: str = "test"

    def __post_init__(self) -> None:
        if self.split not in ("dev", "test"):
            raise UserError(f"a recipe evaluates dev or test, not '{self.split}'", status=2)
        if not isinstance(self.save_checkpoints_secs, int) or self.save_checkpoints_secs < 1:
            raise UserError(f"save_checkpoints_secs={self.save_checkpoints_secs} of a recipe is no number of seconds")


# Section 6.1 of the paper: checkpoints every 10 minutes, of which the last 5 are averaged, or 20 for big models.
RECIPES = {"paper": Recipe()}
NONE = "none"


def recipe_of(recipe: str | Recipe | None, hparams_set: str | None) -> Recipe | None:
    """Returns the recipe of a training: the given one, or that of its hparam set; None if there is none.

    "none" means none, whatever the set says; None: the set's. Any set can have a recipe: `HPARAMS.register(name=...,
    recipe="paper")`. Raises a UserError if there is no such recipe.
    """
    if recipe is None and hparams_set is not None:
        HPARAMS.check(hparams_set)
        recipe = HPARAMS.fact(hparams_set, "recipe", None)
    if recipe is None or recipe == NONE or isinstance(recipe, Recipe):
        return recipe if isinstance(recipe, Recipe) else None
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise UserError(f"`recipe={recipe}` is unknown{nearest(str(recipe), [*RECIPES, NONE])}", status=2)
    return RECIPES[recipe]
