"""The default of one-step logs: propensities, outcome models, scores, intervals, and the choice."""
