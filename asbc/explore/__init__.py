"""A page on one's own vectors: a map to look at, what is in there, and what is wrong with the labels."""

from asbc.explore.findings import Findings, explore
from asbc.explore.page import write_page

__all__ = ["Findings", "explore", "write_page"]
