"""Runs trainings in the test process."""

import pytest


@pytest.fixture(scope="session")
def run():
    """Trains: run(hparams, data_dir, output_dir, problem name, options of `TrainOptions`) -> the result of `train`."""

    def run_training(hparams, data_dir, output_dir, problem="grammar_ende", display=None, **options):
        from t2t_lite.data.manifest import check_data
        from t2t_lite.data.problem import get_problem
        from t2t_lite.runs.run_dir import prepare_run_dir
        from t2t_lite.training.options import TrainOptions
        from t2t_lite.training.run import train

        problem = get_problem(problem)
        manifest = check_data(data_dir, problem)
        vocabulary = data_dir / manifest.vocabulary["file"]
        run_dir = prepare_run_dir(output_dir, hparams, problem, vocabulary, options.get("random_seed", 1))
        options = TrainOptions(**{"peak_tflops": 1.0} | options)  # measuring takes longer than a few steps
        return train(run_dir.hparams, lambda _: run_dir, run_dir.path, data_dir, manifest, options, display=display)

    return run_training
