"""One of several processes that measure together, see `tensorflow_steps.measured_in_processes`.

python -m t2t_lite.benchmark.accelerator.worker REQUEST.pickle RESULT.pickle
"""

import json
import os
import pickle
import sys
from pathlib import Path

from t2t_lite.benchmark.accelerator.tensorflow_steps import loaded
from t2t_lite.system.quiet import prepare_process


def main(request: str, result: str) -> None:
    """Calls the function in the request; the first process writes the result."""
    prepare_process()
    found = loaded(*pickle.loads(Path(request).read_bytes()))
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 0:
        Path(result).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
