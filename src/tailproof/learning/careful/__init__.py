"""The default of `learn`: train, choose and test on different episodes; propose only improvements."""
