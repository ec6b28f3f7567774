"""Random command lines succeed or fail with one line, and change no file that they do not name.

`python tests/support/fuzz.py 500` tries more of them.
"""

import pytest
from support.fuzz import Line, draw, try_line, write_world


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(60))
def test_a_random_command_line_succeeds_or_is_refused_in_one_line(
    seed, tmp_path, tmp_path_factory, commands_environment
):
    write_world(tmp_path)
    home = dict.fromkeys(("XDG_CONFIG_HOME", "HOME"), str(tmp_path_factory.mktemp("home")))
    outcome = try_line(draw(seed), tmp_path, home | commands_environment)
    assert outcome.kind in ("ended well", "refused"), (draw(seed), outcome)


def test_outcomes_of_a_command_line_are_distinguished(tmp_path):
    write_world(tmp_path)
    for flags, kind in (
        (["--output_dir=run", "--n=9"], "refused"),
        (["--output_dir=run", "--n=9", "--debug"], "a traceback"),
        # A file named across two words is not recognised as named.
        (["--output_dir", "run", "--n=1"], "changed run"),
        (["--output_dir=run", "--n=2"], "ended well"),
    ):
        assert try_line(Line("avg", flags, b""), tmp_path, {}).kind.startswith(kind)
