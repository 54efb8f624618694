"""What can go wrong, by name.

Every error says what was wrong, what was received and what to do. All of them are `TailproofError`
and `ValueError`, so a caller may catch one kind, all of ours, or the usual Python one.
"""


class TailproofError(ValueError):
    """Any error that tailproof raises about what it was given."""


class LogError(TailproofError):
    """The logged data cannot be used as it is."""


class StorageError(LogError):
    """A file that could not be read or written; another try may succeed."""


class PolicyError(TailproofError):
    """A policy returned something that is not a policy over the log's actions."""


class MethodError(TailproofError):
    """A method that makes no sense, or a setting that it does not have."""


class PartitionError(TailproofError):
    """The log is too small for the folds that were asked for."""


class LevelError(TailproofError):
    """A confidence level that the evidence at hand cannot reach."""


class FoldError(TailproofError):
    """Too many folds failed for the rest to be trusted."""


class SingularError(TailproofError):
    """A linear system without a unique solution."""


class EngineError(TailproofError):
    """Workers that could not be started, or kept dying."""


class TailproofWarning(UserWarning):
    """Any warning of tailproof: the result stands, but read this first."""


class FoldWarning(TailproofWarning):
    """Some folds failed and were left out."""


class CoverageWarning(TailproofWarning):
    """The policy does what the log never did."""


class StateWarning(TailproofWarning):
    """A state column that seems to hold a code for a missing value."""


class WeightWarning(TailproofWarning):
    """Importance weights that do not average one."""


class HorizonWarning(TailproofWarning):
    """All episodes end at one step, and the state does not tell how many are left."""


class EngineWarning(TailproofWarning):
    """An engine that could not be used."""


class ConvergenceWarning(TailproofWarning):
    """Critics that were trained too briefly for their values to have settled."""


class SingularWarning(TailproofWarning):
    """A linear system that only the ridge makes solvable."""


class QuantileWarning(TailproofWarning):
    """A quantile of so few values that it is their minimum."""


class TaughtWarning(TailproofWarning):
    """A policy is evaluated on episodes that taught it."""
