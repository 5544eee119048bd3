"""Configuration of the documentation: ``make docs``."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

from asbc.version import __version__  # noqa: E402

project = "asbc"
copyright = "the asbc authors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "reference",  # docs/_ext/reference.py
]
exclude_patterns = ["_build", "conda"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

templates_path = ["_templates"]
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
autodoc_inherit_docstrings = False  # those of Lightning and scikit-learn are for other pages
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"asbc {__version__}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_extra_path = ["explore.html"]
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "install": [], "changelog": [], "faq": []}
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
