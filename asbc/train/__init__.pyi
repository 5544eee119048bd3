"""Training of encoders (``asbc-pretrain``): six self-supervised methods with lightly's losses and transforms."""

from .barlow import BarlowTwins
from .byol import BYOL
from .checkpoint import CurveLogger, wandb_logger
from .data import ImageArrays, held_out_arrays
from .dino import DINO
from .method import Method, MomentumMethod, Recipe
from .mocov2 import MoCoV2
from .simclr import SimCLR
from .vicreg import VICReg

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
