"""The colour words of the reward.

The list of words is that of princeton-nlp/WebShop (MIT License, Copyright (c) 2023 Princeton Natural Language
Processing).
"""

COLOURS = tuple(
    """
    alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
    caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
    dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
    ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
    mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
    sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
    wheat white wine yellow
    """.split()
)


def normalise_colour(value: str | tuple[str, str]) -> str | tuple[str, str]:
    """Replace an option value by the colour word in it.

    The first word of the alphabetical list that occurs anywhere in the value wins, inside other words too: ``standard``
    becomes ``tan``, ``seashell`` becomes ``ash``. Of an (axis, value) pair a member must equal the word, as in the
    official engine, where the same membership test meets a tuple.
    """
    return next((colour for colour in COLOURS if colour in value), value)
