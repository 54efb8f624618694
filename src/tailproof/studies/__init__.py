"""Studies: the paper's experiments, the benchmark, the demonstration. Nothing else imports them."""
