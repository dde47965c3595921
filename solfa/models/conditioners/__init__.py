"""From what is known about a clip (a caption, labels, numbers) to vectors that a model is conditioned on."""

from solfa.models.conditioners.protocol import Condition, Conditioner
from solfa.models.conditioners.set import ConditionerConfig, ConditionerSet, ConditionsConfig

__all__ = ["Condition", "Conditioner", "ConditionerConfig", "ConditionerSet", "ConditionsConfig"]
