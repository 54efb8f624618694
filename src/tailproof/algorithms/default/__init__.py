"""The default of `evaluate`: a ladder of critics, averaged by their estimated risk."""
