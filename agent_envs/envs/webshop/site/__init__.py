"""The WebShop for people: the environment behind a small web site; needs the extra ``webshop``."""
