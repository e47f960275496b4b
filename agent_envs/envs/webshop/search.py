"""Product search: the official engine's ranking, and its two special first words."""

import functools
from pathlib import Path

from agent_envs.envs.webshop.catalogue import Catalogue, Product
from agent_envs.retriever.bm25 import BM25Index

MAX_RESULTS = 50
_CACHED_QUERIES = 4096


def index_text(product: Product) -> str:
    """Return the text a product is found by: title, description, first bullet and options, lower case."""
    options = ", and ".join(f"{axis}: {', '.join(values)}" for axis, values in product.options)
    bullet = product.bullets[0] if product.bullets else ""
    return f"{product.title} {product.description} {bullet} {options}".lower()


class ProductSearch:
    """Read-only search over a catalogue; answers are cached per query and shared by all sessions."""

    def __init__(self, catalogue: Catalogue, *, index_dir: str | Path | None = None) -> None:
        """Index a catalogue.

        Args:
            catalogue: Products to find.
            index_dir: Folder in which the index is kept for the next time, under the catalogue's digest; None builds it
                anew (half a second for 1,000 products, minutes for a million).
        """
        self._catalogue = catalogue
        self._index = _index(catalogue, Path(index_dir) if index_dir else None)
        self.find = functools.lru_cache(maxsize=_CACHED_QUERIES)(self._find)
        """Rows of the products found for a query (lower case), best first; see `_find`."""
        self._of_category = functools.lru_cache(maxsize=64)(lambda category: self._where("category", category))
        self._of_query = functools.lru_cache(maxsize=64)(lambda query: self._where("query", query))

    def _find(self, query: str) -> tuple[int, ...]:
        """Search.

        ``<c> word`` lists the products of a category and ``<q> words`` those of a query, all of them and in file order;
        of ``<c>`` only the next word counts. Anything else is ranked text search with at most 50 results.
        """
        first, *rest = query.split(" ")
        if first == "<c>" and rest:
            return self._of_category(rest[0].strip())
        if first == "<q>":
            return self._of_query(" ".join(rest).strip())
        return tuple(self._catalogue.row(asin) for asin, _ in self._index.search(query, MAX_RESULTS))

    def _where(self, field: str, value: str) -> tuple[int, ...]:
        return tuple(row for row, product in enumerate(self._catalogue) if getattr(product, field) == value)


def _index(catalogue: Catalogue, folder: Path | None) -> BM25Index:
    asins = [product.asin for product in catalogue]
    if folder is None:
        return BM25Index(asins, map(index_text, catalogue))
    place = folder / f"webshop-bm25-{catalogue.digest}"
    if not place.exists():
        try:
            BM25Index(asins, map(index_text, catalogue)).save(place)
        except OSError:
            if not place.exists():  # else another process was faster with the same index
                raise
    return BM25Index.load(place)
