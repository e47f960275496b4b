"""WebShop as a text engine: catalogue, goals, search, pages and reward equal to the official engine, without Java."""
