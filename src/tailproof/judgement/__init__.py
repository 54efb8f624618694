"""What a log shows and what follows from it: measured and decided once, read by all four doors."""
