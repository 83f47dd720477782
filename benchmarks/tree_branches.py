"""How many draft tokens of a tree follow on another branch's cache, and what of them is not as trained.

    python benchmarks/tree_branches.py      # in an environment that has both libraries

Prints one line per draft and setting. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from platformdirs import user_cache_path

from contracts.recipes import RECIPES
from contracts.settings import SETTINGS
from contracts.workbench import Workbench

OWN, OTHER = "on their own branch", "on another"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--training-python", default=sys.executable, help="interpreter that has speculators")
    parser.add_argument("--serving-python", default=sys.executable, help="interpreter that has sglang")
    options = parser.parse_args()
    pythons = {"training": options.training_python, "serving": options.serving_python}
    workbench = Workbench(pythons=pythons, cache=Path(user_cache_path("draft-contracts")))
    for recipe in filter(lambda recipe: recipe.speaks, RECIPES):
        for setting in SETTINGS:
            acceptance = workbench.acceptance(recipe.name, setting)
            counts = {OWN: [0, 0], OTHER: [0, 0]}
            for expected, item, _ in acceptance.rounds():
                for node in range(1, len(item.drafted) + 1):
                    count = counts[OWN if item.follows_its_own_branch(node) else OTHER]
                    count[0] += 1
                    count[1] += acceptance.not_proposed(expected, item, node) is not None
            told = [
                f"{label}: {total} tokens, {bad} not as trained" for label, (total, bad) in counts.items()
            ]
            print(f"{recipe.name:<8} {setting.name:<8} {'; '.join(told)}")


if __name__ == "__main__":
    main()
