"""The base algorithms: each fits K members on K folds."""
