"""Pictures of a study, as plotly figures: its workers over time, its stage tree, its learning curves.

The functions take plain values and return a ``plotly.graph_objects.Figure``. plotly comes with the extra
``plot`` and is imported when a figure is made.
"""

from hippotune.plots.learning_curves import curves
from hippotune.plots.saving import save
from hippotune.plots.stages_over_steps import tree
from hippotune.plots.workers_over_time import timeline, without_pauses

__all__ = ["curves", "save", "timeline", "tree", "without_pauses"]
