"""Research: the paper's experiments, the benchmark and the demonstration. Nothing else imports them."""
