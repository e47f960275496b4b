"""Household tasks in text: the ALFWorld rules as a pure-Python engine, its game files and an oracle."""
