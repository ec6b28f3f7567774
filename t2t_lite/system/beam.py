"""Pipelines of Apache Beam, for data generation and decoding on clusters."""

from types import ModuleType
from typing import Any

from t2t_lite.errors import UserError
from t2t_lite.system.installed import check_installed


def new_pipeline(runner: str, options: str) -> tuple[ModuleType, Any]:
    """Returns the module `apache_beam` and a new `Pipeline`.

    Args:
      runner: "direct" for this machine, or the name of a Beam runner, such as "FlinkRunner".
      options: flags for the pipeline, separated by spaces.

    Raises:
      UserError: if Beam is not installed or does not know the runner.
    """
    check_installed(f"`runner={runner}`", {"apache_beam": "Apache Beam"}, "beam")
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

    try:
        # Avoids Beam's default for "direct", which tries to download a program.
        made = FnApiRunner() if runner.lower() in ("direct", "directrunner") else runner
        return beam, beam.Pipeline(runner=made, options=PipelineOptions(options.split()))
    except ValueError as error:
        raise UserError(f"`runner={runner}`: {str(error).splitlines()[0]}", status=2) from error
