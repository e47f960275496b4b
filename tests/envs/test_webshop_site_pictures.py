"""The drawings of the WebShop site: every product has one, in its colour, the same each time."""

import xml.etree.ElementTree as ElementTree

from agent_envs.envs.webshop.generator import generated_catalogue
from agent_envs.envs.webshop.site import pictures
from agent_envs.envs.webshop.site.palette import named_colours, shades_for
from agent_envs.envs.webshop.site.views import dollars


def test_every_embedded_product_has_a_drawing_of_its_kind():
    for product in generated_catalogue():
        words = pictures.shape_for(product).words
        texts = f"{product.query} {product.title} {product.product_category}".lower()
        assert any(word in texts for word in words), (product.query, words)


def test_pictures_are_well_formed_equal_each_time_and_free_of_links():
    shapes = pictures.load_shapes()
    assert len(shapes) > 100
    for name in shapes:
        for value in ("", "black | white", "leopard", "rainbow", "floral", "marble white", "glitter silver"):
            drawing = pictures._draw(name, value, 7)
            ElementTree.fromstring(drawing)
            assert "@" not in drawing and "href" not in drawing and "<script" not in drawing
    product = generated_catalogue().products[0]
    first = pictures.picture(product, 0)
    pictures._draw.cache_clear()
    assert pictures.picture(product, 0) == first == pictures.picture(product, 99)


def test_pictures_follow_the_colour():
    product = next(product for product in generated_catalogue() if len(dict(product.options).get("color", ())) > 1)
    assert pictures.picture(product, 0) != pictures.picture(product, 1)


def test_colour_words():
    assert named_colours("black | gold") == [*named_colours("black"), *named_colours("gold")]
    assert len(named_colours("red | green | blue")) == 2
    assert named_colours("size 8") == []
    assert sum(named_colours("light blue")[0]) > sum(named_colours("blue")[0]) > sum(named_colours("dark blue")[0])
    assert shades_for([], 3) == shades_for([], 3) and shades_for([], 3) != shades_for([], 4)
    assert pictures.swatch("silver") and pictures.swatch("xx-large") is None


def test_prices_as_shops_write_them():
    assert dollars("$9.5 to $20.0") == "$9.50 – $20.00" and dollars("$1299.0") == "$1,299.00" and dollars("") == ""
