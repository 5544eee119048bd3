"""Training of encoders (``asbc-pretrain``): six self-supervised methods with lightly's losses and transforms."""

from asbc.train.barlow import BarlowTwins
from asbc.train.byol import BYOL
from asbc.train.checkpoint import CurveLogger, wandb_logger
from asbc.train.data import ImageArrays, held_out_arrays
from asbc.train.dino import DINO
from asbc.train.method import Method, MomentumMethod, Recipe
from asbc.train.mocov2 import MoCoV2
from asbc.train.simclr import SimCLR
from asbc.train.vicreg import VICReg

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
