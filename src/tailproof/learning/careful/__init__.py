"""The default of `learn`: teach, choose and judge on different episodes, and say no if need be."""
