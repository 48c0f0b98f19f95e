"""What every store does with a command first: accept it, gather it with others."""
