"""Sphinx's settings. The source folder is the repository, so that links are those of the files."""

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
    "sphinx.ext.autosummary",
    "sphinxcontrib.typer",
    "generated_pages",
]
root_doc = "docs/index"
include_patterns = [
    *("ARCHITECTURE.md", "ARTIFACT.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
    "docs/**",
    "notebooks/*.ipynb",
]
exclude_patterns = [
    *(".*", "data", "workbench", "docs/_build", "docs/pages", "docs/templates"),
    "docs/generated/causes.md",  # which a page includes
]
templates_path = ["docs/templates"]
suppress_warnings = [
    "myst.strikethrough",
    "ref.python",  # a short name in a signature, such as `bytes`, may also be a method's
]
default_role = "py:obj"

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks stand here as `make reproduce` ran them
nb_merge_streams = True
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # from the network
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]

autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"ArrayLike": "ArrayLike"}
maximum_signature_line_length = 100
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = project
html_static_path = ["static"]
html_extra_path = ["static/index.html", *(["pages"] if (HERE / "pages").is_dir() else [])]
html_css_files = ["workbench.css"]
html_js_files = [("workbench.js", {"defer": "defer"})]
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
