"""Encoders trained anew: six self-supervised methods on lightly's losses and transforms. ``asbc-pretrain``."""

from asbc.train.barlow import BarlowTwins
from asbc.train.byol import BYOL
from asbc.train.curve import CurveLogger, wandb_logger
from asbc.train.dino import DINO
from asbc.train.images import ImageArrays, held_out_arrays
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
