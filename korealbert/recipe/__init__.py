"""A recipe: one TOML file that holds the specs of all stages, the graph they form, and the plan of what would run and why."""

from korealbert.recipe.dag import Node, graph, until
from korealbert.recipe.planning import Planned, plan, prepare
from korealbert.recipe.reading import RecipeError, load

__all__ = ["Node", "Planned", "RecipeError", "graph", "load", "plan", "prepare", "until"]
