"""Configuration of the documentation. The build needs no network."""

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

from dilutron import __version__

project = "dilutron"
author = "The dilutron developers"
copyright = "2026, The dilutron developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"(?<!colon)\.py$",  # all are run but this one, whose data are not part of the project
    "ignore_pattern": r"study\.py$",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
}

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings state types with their shapes
autosummary_generate = False
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = f"dilutron {release}"
html_theme_options = {
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "header_links_before_dropdown": 5,
}
html_sidebars = {"**": []}  # every page is at the top: there is nothing below it to list
html_math_renderer = "mathml"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is


def without_aliases(app, what, name, obj, skip, options):
    """Leave out what Python itself writes about each field of a NamedTuple: "Alias for field number 0"."""
    return skip or (getattr(obj, "__doc__", None) or "").startswith("Alias for field number")


def written(as_block):
    """Formulas as MathML, which browsers know of themselves: MathJax would come over the network."""

    def visit(translator, node):
        formula = tex2mathml(node.astext(), as_block=as_block)
        translator.body.append(f'<div style="margin: 1rem 0">{formula}</div>\n' if as_block else formula)
        raise SkipNode

    return visit, None


def setup(app):
    app.add_html_math_renderer("mathml", written(False), written(True))
    app.connect("autodoc-skip-member", without_aliases)
