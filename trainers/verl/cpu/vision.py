"""Lets transformers import torchvision beside a CPU build of torch."""

from __future__ import annotations

import importlib.util
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, int pooled_width, "
    "int sampling_ratio, bool aligned) -> Tensor",
)


def define_missing_operators() -> None:
    """Declare torchvision's operators where its compiled part does not load.

    The wheel on PyPI is built for CUDA; beside a CPU torch ``import torchvision`` fails since it registers Python
    parts of operators that do not exist. Its image transforms, all that the processors use, need none of them.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    import torch

    if torch.version.cuda is not None:
        return
    library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    for schema in _SCHEMAS:
        try:
            library.define(schema)
        except RuntimeError:  # a torchvision that fits this torch declared it already
            return
    _KEPT.append(library)


_KEPT: list[object] = []  # operators vanish with the library object
