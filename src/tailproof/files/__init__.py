"""Files written whole, with checksums, that hold numbers and text only."""
