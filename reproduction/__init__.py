"""The paper's experiments, one command each: `python -m reproduction ope`."""
