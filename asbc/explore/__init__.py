"""A page about your vectors: a map, clusters, outliers, near-duplicates and doubtful labels.

`material` reads what is given, `findings` computes every number, `page` draws the map and writes the HTML and the
table, and `command` is `asbc-explore`.
"""

from asbc.explore.findings import Findings, explore
from asbc.explore.page import write_page

__all__ = ["Findings", "explore", "write_page"]
