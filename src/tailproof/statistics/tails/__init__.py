"""Statistics of one sample: how heavy its tails are, whether extremes cluster, and its skew."""

from tailproof.statistics.tails.clustering import (
    ExtremalIndex,
    extremal_index,
    extremal_index_across,
)
from tailproof.statistics.tails.index import (
    TailIndex,
    TailPath,
    hill,
    moment,
    pickands,
    tail_index,
    tail_path,
)
from tailproof.statistics.tails.moments import (
    MomentEvidence,
    max_to_sum,
    max_to_sum_path,
    moment_evidence,
)
from tailproof.statistics.tails.residuals import ResidualMonitor, mad, residual_monitor
from tailproof.statistics.tails.skew import Medcouple, TailAsymmetry, medcouple, tail_asymmetry
from tailproof.statistics.tails.weights import (
    ParetoShape,
    WeightEvidence,
    effective_sample_size,
    pareto_shape,
    weight_evidence,
)

__all__ = ["ExtremalIndex", "Medcouple", "MomentEvidence", "ParetoShape", "ResidualMonitor"]
__all__ += ["TailAsymmetry", "TailIndex", "TailPath", "WeightEvidence", "effective_sample_size"]
__all__ += ["extremal_index", "extremal_index_across", "hill", "mad", "max_to_sum"]
__all__ += ["max_to_sum_path", "medcouple", "moment", "moment_evidence", "pareto_shape", "pickands"]
__all__ += ["residual_monitor", "tail_asymmetry", "tail_index", "tail_path", "weight_evidence"]
