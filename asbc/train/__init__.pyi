"""Training of encoders (``asbc-pretrain``): six self-supervised methods with lightly's losses and transforms."""

from .checkpoint import CurveLogger, wandb_logger
from .data import ImageArrays, held_out_arrays
from .methods import BYOL, DINO, BarlowTwins, Method, MoCoV2, MomentumMethod, Recipe, SimCLR, VICReg

__all__ = [
    "BYOL",
    "DINO",
    "BarlowTwins",
    "CurveLogger",
    "ImageArrays",
    "Method",
    "MoCoV2",
    "MomentumMethod",
    "Recipe",
    "SimCLR",
    "VICReg",
    "held_out_arrays",
    "wandb_logger",
]
