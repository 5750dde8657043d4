"""A recipe: one TOML file that holds the specs of all stages, the graph they form, and the plan of what would run and why.

An ablation is a grid of recipes over one corpus, in a TOML file of its own.
"""

from korealbert.recipe.ablation import Ablation, load_ablation
from korealbert.recipe.dag import graph
from korealbert.recipe.grid import ablation_graph
from korealbert.recipe.nodes import Node, until
from korealbert.recipe.planning import Planned, plan, prepare
from korealbert.recipe.reading import load
from korealbert.recipe.specs import Recipe
from korealbert.recipe.tables import RecipeError

__all__ = [
    "Ablation",
    "Node",
    "Planned",
    "Recipe",
    "RecipeError",
    "ablation_graph",
    "graph",
    "load",
    "load_ablation",
    "plan",
    "prepare",
    "until",
]
