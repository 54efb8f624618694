"""What a policy may be, and what its states and actions are called."""
