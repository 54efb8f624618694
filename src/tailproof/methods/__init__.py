"""Named methods: their composition, the catalogue, and the loop over folds."""
