"""Scripts that AppWorld's own interpreter runs. They import the standard library, AppWorld and each other only."""
