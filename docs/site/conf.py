"""The configuration of the site that bin/docs builds, see https://www.sphinx-doc.org/en/master/usage/configuration.html."""

from sphinx.application import Sphinx

import t2t_lite
from t2t_lite.options import Options

project = "t2t-lite"
version = release = t2t_lite.__version__
html_title = f"t2t-lite {version}"
copyright = "the authors of t2t-lite"
html_theme = "furo"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
# Links to headings are those of GitHub.
myst_heading_anchors = 4
# In docstrings, `x` is code.
default_role = "literal"
napoleon_custom_sections = [("Call arguments", "params_style")]
napoleon_use_rtype = False
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
html_show_sphinx = False
html_copy_source = html_show_sourcelink = False
html_css_files = ["site.css"]
html_static_path = ["site.css"]


def setup(app: Sphinx) -> None:
    """Leaves the settings of option classes to the page options.md."""
    app.connect("autodoc-process-signature", _without_options)
    app.connect("autodoc-process-docstring", _refer_to_options, priority=100)  # before napoleon


def _is_options(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, Options)


def _without_options(app: Sphinx, what: str, name: str, item: object, *more: object) -> tuple[str, None] | None:
    return ("(**settings)", None) if _is_options(item) else None


def _refer_to_options(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    if _is_options(item) and "Args:" in lines:
        del lines[lines.index("Args:") :]
        lines += ["The settings are in :doc:`options`.", ""]
    if lines and lines[0].startswith("Alias for field number"):  # a field of a named tuple
        lines.clear()
