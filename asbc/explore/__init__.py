"""A page about your vectors: a map, clusters, outliers, near-duplicates and doubtful labels.

`command` is `asbc-explore`: it reads what is given. `findings` computes every number. `page` draws the map and writes
the HTML and the table.
"""

from asbc.explore.findings import Findings, explore
from asbc.explore.page import write_page

__all__ = ["Findings", "explore", "write_page"]
