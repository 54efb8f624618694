"""What a log shows and what follows from it, decided once and read by all doors."""
