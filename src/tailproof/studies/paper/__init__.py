"""Every figure and table of the paper as one small module, behind `tailproof reproduce`."""
