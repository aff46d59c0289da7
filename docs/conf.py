"""The documentation website: ``make docs`` builds it, and needs no network for it."""

import sys
import warnings
from functools import partialmethod
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

from nbclient import NotebookClient  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

from vbsvm import __version__  # noqa: E402

project = "vbsvm"
author = "The vbsvm developers"
copyright = "the vbsvm developers"
version = release = __version__

extensions = [
    "mathml",
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "jupyter_execute", "gallery/*.ipynb"]
suppress_warnings = ["myst.header"]  # the reproduction writes its results to stand inside another page
templates_path = ["_templates"]
html_math_renderer = "mathml"

# Pages are Markdown; tutorials are notebooks in Markdown, and are run.
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_timeout = 900
# A busy machine may take its time to start a kernel.
NotebookClient.__init__ = partialmethod(NotebookClient.__init__, startup_timeout=900)
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # bars of progress are widgets, whose scripts would come from the network

autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.position",
    "download_all_examples": False,
    "remove_config_comments": True,
    "capture_repr": ("_repr_html_",),
    "show_memory": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
}
# An example that warns says so on its page, as a user would see it; matplotlib without a screen is none of theirs.
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_context = {"default_mode": "auto"}
html_theme = "pydata_sphinx_theme"
html_title = "vbsvm"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # summaries are fetched, which browsers refuse to pages from files
html_theme_options = {
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "install": [], "start": [], "changelog": []}
copybutton_exclude = ".linenos, .gp, .go"


def skip_foreign(app: Sphinx, what: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that scikit-learn adds to its estimators: their docstrings lead to pages of its own."""
    return True if name in ("get_metadata_routing", "set_output") or name.endswith("_request") else None


def setup(app: Sphinx) -> None:
    """Connect what is above."""
    app.connect("autodoc-skip-member", skip_foreign)
