"""Sphinx's settings. Pages that follow from code, figures and notebooks: `extensions`."""

from __future__ import annotations

import sys
from pathlib import Path

import workbench

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "The workbench"
author = "the workbench's authors"
version = release = workbench.__version__
language = "en"

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "extensions.generated",
    "extensions.mathml",
    "extensions.references",
]
exclude_patterns = [
    "_build",
    "extensions",
    "static",
    "pages",
    "generated/front.md",
]  # front.md: see index.md
suppress_warnings = ["myst.strikethrough"]

# References that lead nowhere are warnings, where they name something of ours.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!workbench\.).*")]
default_role = "py:obj"

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks stand here as `make reproduce` ran them
nb_merge_streams = True

maximum_signature_line_length = 100
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["static"]
html_extra_path = ["pages"] if (HERE / "pages").is_dir() else []  # of `workbench share`
html_css_files = ["workbench.css"]
html_js_files = [("workbench.js", {"defer": "defer"})]
html_search_scorer = str(HERE / "extensions" / "search.js")
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "collapse_navigation": True,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Pages open from disk: no script, font or style comes from elsewhere.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
html_math_renderer = "mathml"
