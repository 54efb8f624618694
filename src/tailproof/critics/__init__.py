"""Critics: the value of actions by linear systems, fitted Q and trees, and ensembles of critics."""
