"""Random command lines succeed or fail with one line, and change no file that they do not name.

`python tests/support/fuzz.py 500` tries more of them.
"""

import pytest
from support.fuzz import Line, draw, try_line, write_world

SEEDS = range(60)


@pytest.fixture
def world(tmp_path):
    write_world(tmp_path)
    return tmp_path


@pytest.mark.heavy
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_command_line_succeeds_or_is_refused_in_one_line(seed, world, tmp_path_factory, commands_environment):
    line = draw(seed)
    home = dict.fromkeys(("XDG_CONFIG_HOME", "HOME"), str(tmp_path_factory.mktemp("home")))
    outcome = try_line(line, world, home | commands_environment)
    assert outcome.kind in ("ended well", "refused"), (line, outcome)


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        (["--output_dir=run", "--n=1"], "ended well"),
        (["--output_dir=run", "--n=9"], "refused"),
        (["--output_dir=run", "--n=9", "--debug"], "a traceback"),
        # A file named across two words is not recognised as named.
        (["--output_dir", "run", "--n=1"], "changed run"),
    ],
)
def test_outcomes_of_a_command_line_are_distinguished(world, flags, kind):
    assert try_line(Line("avg", flags, b""), world, {}).kind.startswith(kind)
