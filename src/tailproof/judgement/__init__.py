"""What a log shows and what follows from it, decided once."""
