"""What clients may ask: a module for each group of addresses, and the forms of the answers."""
