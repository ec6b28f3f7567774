"""Reads back what is drawn in an SVG file of attention."""

import re
from xml.etree import ElementTree

import numpy as np

SVG = "http://www.w3.org/2000/svg"


def groups_of(file):
    """Returns {id: [(points, style)]} of the groups of an SVG file that have weights."""
    found = {}
    for group in ElementTree.parse(file).getroot().iter(f"{{{SVG}}}g"):
        if re.search(r"-layer\d+-head\d+", group.get("id", "")):
            paths = group.findall(f".//{{{SVG}}}path")
            found[group.get("id")] = [
                (np.array(re.findall(r"-?[\d.]+", path.get("d")), float).reshape(-1, 2), path.get("style"))
                for path in paths
            ]
    return found


def opacity(style, of):
    """Returns an opacity of a style; matplotlib leaves out 1."""
    match = re.search(rf"{of}-opacity: ([\d.]+)|[^-]opacity: ([\d.]+)", style)
    return float(next(filter(None, match.groups()))) if match else 1.0
