"""Named methods: the composition, the catalogue of rows, and the loop over folds."""
