"""A page about your vectors: a map, clusters, outliers, near-duplicates and doubtful labels.

`command` is `asbc-explore`: it reads what is given. `findings` computes the results. `page` draws the map and
the histograms and writes the HTML and the table; `page.html` and `page.js` are the page itself.
"""

from asbc.explore.findings import Findings, explore
from asbc.explore.page import write_page

__all__ = ["Findings", "explore", "write_page"]
