"""How an image becomes several views of it: lightly's transforms, without the steps that never act."""

from __future__ import annotations

from typing import Any


def without_idle_steps(views: Any) -> Any:
    """Leave steps out that a transform of lightly has with probability 0; they cost as much time as the others.

    Parameters
    ----------
    views : lightly's MultiViewTransform, or another callable
        Changed in place; one that is put together otherwise is returned as it is.

    Examples
    --------
    >>> from lightly.transforms import SimCLRTransform
    >>> from asbc.train.views import without_idle_steps
    >>> views = without_idle_steps(SimCLRTransform(input_size=32, gaussian_blur=0.0))
    >>> [type(step).__name__ for step in views.transforms[0].transform.transforms][:4]
    ['RandomResizedCrop', 'RandomHorizontalFlip', 'RandomApply', 'RandomGrayscale']
    """
    for view in getattr(views, "transforms", []):
        steps: Any = getattr(view, "transform", None)
        if hasattr(steps, "transforms"):
            steps.transforms = [step for step in steps.transforms if _chance(step) != 0]
    return views


def _chance(step: Any) -> float | None:
    """With which probability a step acts; None where it always does."""
    for name in ("p", "prob"):
        if isinstance(getattr(step, name, None), int | float):
            return float(getattr(step, name))
    return None
