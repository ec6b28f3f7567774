"""What all charts, pictures and HTML files share: checks of files, the style of charts, and HTML by templates."""

import functools
import io
import json
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.errors import UserError
from t2t_lite.files import check_output, written_whole
from t2t_lite.system.installed import check_installed

if TYPE_CHECKING:
    import jinja2
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito's colours, which colour-blind people can distinguish, and two more.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F6A00", "#8C4BC9")
_IDS = re.compile(r' id="[a-zA-Z0-9_]+_\d+"')  # such as figure_1 and axes_1, which occur in every picture
# The choices for attention pictures.
KINDS = ("encoder", "decoder", "cross")  # kinds of attention
FORMS = ("lines", "matrix", "overview")
# Maximum for an HTML file. A sentence of 20 tokens takes half a megabyte with 6 layers and 8 heads.
MAX_SENTENCES = 20


def check_plot_file(file: Path, argument: str = "plot_file", formats: Sequence[str] = FORMATS) -> None:
    check_matplotlib(argument)
    check_output(file, f"`{argument}={file}`")
    if file.suffix.lower() not in formats:
        raise UserError(f"`{argument}={file}`: unknown plot format; use a file name that ends in {', '.join(formats)}")


def check_matplotlib(argument: str) -> None:
    check_installed("a plot", {"matplotlib": "matplotlib"}, "plot", omit=argument)


def make_figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: "Figure", file: Path) -> None:
    """Writes a figure. The file appears only once it is complete. Text in SVG files stays text."""
    with written_whole(file) as partial, _svg_settings(file.name):
        kind = file.suffix[1:].lower()
        # Omit the date, so that equal figures give identical files.
        figure.savefig(partial, format=kind, dpi=144, metadata={"Date": None} if kind == "svg" else None)


def html_style() -> AbstractContextManager[None]:
    """Gives figures made inside the block the style for `figure_svg`."""
    import matplotlib as mpl

    return mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})


def figure_svg(figure: "Figure", name: str) -> str:
    """Returns a figure as an SVG element for HTML, on a white ground. `name` must be unique among those in a file."""
    buffer = io.StringIO()
    with _svg_settings(name):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    svg = buffer.getvalue()
    return _IDS.sub("", re.sub(r"<metadata>.*?</metadata>\s*", "", svg[svg.index("<svg") :], flags=re.DOTALL))


def _svg_settings(name: str) -> AbstractContextManager[None]:
    import matplotlib as mpl

    return mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name})


def check_html(argument: str) -> None:
    check_installed("an HTML file", {"jinja2": "Jinja"}, "plot", omit=argument)


def render(template: str, **values: object) -> str:
    """Fills in a template of `templates/`. Texts are escaped, and JSON is safe inside scripts."""
    return _environment().get_template(template).render(**values)


def static_text(name: str) -> str:
    from importlib import resources  # slow, and commands import this module for their flags

    return (resources.files("t2t_lite.visualization") / "static" / name).read_text(encoding="utf-8")


def json_in_script(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def _environment() -> "jinja2.Environment":
    import jinja2
    import markupsafe

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("t2t_lite.visualization"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "json": lambda value: markupsafe.Markup(json_in_script(value)),
        "markup": markupsafe.Markup,  # for SVG that this package generates
    }
    environment.filters |= filters
    environment.globals["static"] = lambda name: markupsafe.Markup(static_text(name))
    return environment


def check_picture_file(file: Path, argument: str) -> None:
    if file.suffix.lower() == ".html":
        check_html(argument)
        check_output(file, f"`{argument}={file}`")
        return
    check_plot_file(file, argument, (".html", *FORMATS))
