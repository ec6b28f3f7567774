"""Where the vocabularies of generated data are."""

from pathlib import Path

from t2t_lite.data.manifest import read_manifest


def vocabulary_paths(data_dir: Path, problem) -> list[Path]:
    """Returns the paths of the vocabularies of the forward inputs and targets, as the manifest names them."""
    return [Path(data_dir) / each["file"] for each in read_manifest(data_dir, problem).vocabularies]
