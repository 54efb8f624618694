"""The accepted forms of policies, and the names of their states and actions."""
