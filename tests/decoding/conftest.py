"""A translator that several files use."""

import pytest

from t2t_lite.decoding.translator import Translator


@pytest.fixture(scope="session")
def translator(small_run):
    return Translator.from_run_dir(small_run, "extra_length=5", xla_compile=False)
