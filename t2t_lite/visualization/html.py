"""Renders self-contained HTML files from templates: values are escaped; styles and scripts are included."""

import functools
import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from t2t_lite.files import check_output
from t2t_lite.system.installed import check_installed
from t2t_lite.visualization.figures import FORMATS, check_plot_file

if TYPE_CHECKING:
    import jinja2


def check_html(argument: str) -> None:
    check_installed("an HTML file", {"jinja2": "Jinja"}, "plot", omit=argument)


def render(template: str, **values: object) -> str:
    """Fills in a template of `templates/`. Texts are escaped, and JSON is safe inside scripts."""
    return _environment().get_template(template).render(**values)


def static_text(name: str) -> str:
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
