"""The demonstration: a shop's mailings, a few enormous orders, and a truth that is known."""
