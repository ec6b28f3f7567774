"""The trainer under SLURM on one machine, with the sbatch file of docs/cluster.md. Needs slurmctld, slurmd and munge.

On Debian, as root: `apt install slurmctld slurmd slurm-client munge`, then
`bin/test --heavy tests/integration/test_slurm.py`.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest
from integration.test_devices import HPARAMS, parameters, undivided  # noqa: F401  a fixture
from support.checkpoints import assert_same_content
from support.commands import free_addresses, user_environment

LACKS = os.geteuid() != 0 or not all(map(shutil.which, ("slurmctld", "slurmd", "munged", "sbatch")))
pytestmark = [pytest.mark.heavy, pytest.mark.skipif(LACKS, reason="needs root, slurmctld, slurmd, munged and sbatch")]
DOCS = Path(__file__).resolve().parents[2] / "docs" / "cluster.md"
CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SchedulerParameters=sched_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 CoresPerSocket=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """A function that runs SLURM's commands on a cluster of this machine alone."""
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    ports = [address.rpartition(":")[2] for address in free_addresses(2)]
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(CONFIG.format(folder=folder, host=host, ports=ports))
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    environment = user_environment(SLURM_CONF=f"{folder}/slurm.conf")
    files = {"key-file": "munge.key", "socket": "munge.socket", "log-file": "munged.log", "seed-file": "munge.seed"}
    munge = [f"--{name}={folder}/{file}" for name, file in files.items()] + [f"--pid-file={folder}/munged.pid"]
    daemons = [["munged", "--force", "--foreground", *munge], ["slurmctld", "-D"], ["slurmd", "-D"]]
    running = []

    def run(*command, **more):
        return subprocess.run(command, env=environment | more, check=True, capture_output=True, text=True).stdout

    try:
        for daemon in daemons:
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            running.append(subprocess.Popen(daemon, env=environment, **quiet))
            time.sleep(1)
        waited_for(lambda: "idle" in run("sinfo", "--noheader", "--format=%T"))
        yield run
        run("scancel", "--user=root")
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def waited_for(condition, seconds=240):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.fixture
def submitted(slurm, multi30k_data, tmp_path):
    """A function that submits the sbatch file of the docs, with other flags; returns the job and its output file."""

    def submit(steps):
        (script,) = re.findall(r"^```sh\n(#!/bin/bash\n#SBATCH.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
        script = script.replace("--nodes=2", "--nodes=1").replace("--ntasks-per-node=1", "--ntasks-per-node=2")
        script = re.sub(r"#SBATCH --(gpus|cpus|time|mem)\S*\n", "", script)
        flags = f"--problem=multi30k_ende --hparams_set=transformer_multi30k --hparams={HPARAMS} --train_steps={steps}"
        flags += f" --data_dir={multi30k_data} --output_dir={tmp_path}/run --schedule=train --peak_tflops=1"
        flags += " --save_checkpoints_steps=100000 --log_step_count_steps=20"
        trainer = f"srun t2t-lite-trainer {flags}\n"
        script = re.sub(r"^srun t2t-lite-trainer(.|\\\n)*", trainer, script, flags=re.MULTILINE)
        (tmp_path / "job.sbatch").write_text(script)
        output = slurm("sbatch", f"--output={tmp_path}/job.out", str(tmp_path / "job.sbatch"), CUDA_VISIBLE_DEVICES="")
        return output.split()[-1], tmp_path / "job.out"

    return submit


def state_of(slurm, job):
    return re.search(r"JobState=(\w+)", slurm("scontrol", "show", "job", job))[1]


def test_two_tasks_train_the_parameters_of_one_process(slurm, submitted, undivided, tmp_path):  # noqa: F811
    job, output = submitted(10)
    waited_for(lambda: state_of(slurm, job) == "COMPLETED")
    said = output.read_text()
    assert "2 CPUs on 2 workers" in said
    host = socket.gethostname().split(".")[0]
    assert re.search(rf"^workers: {host}:\d+ \(1 CPU\), {host}:\d+ \(1 CPU\)$", said, re.MULTILINE)
    assert_same_content(parameters(tmp_path / "run"), parameters(undivided), 1e-5)


def test_a_requeued_job_resumes_and_a_cancelled_one_leaves_a_checkpoint(slurm, submitted, tmp_path):
    job, output = submitted(100_000)
    waited_for(lambda: output.exists() and "step 20/" in output.read_text())
    slurm("scontrol", "requeue", job)
    waited_for(lambda: state_of(slurm, job) == "PENDING")
    stopped = re.search(r"stopped by SIGTERM after step (\d+), which is saved", output.read_text())
    slurm("scontrol", "update", f"job={job}", "StartTime=now")  # SLURM would wait for two minutes
    waited_for(lambda: f"resuming from {tmp_path}/run/ckpt-{stopped[1]}" in output.read_text())
    step = 20 * (int(stopped[1]) // 20 + 1)
    waited_for(lambda: f"step {step}/" in output.read_text())
    slurm("scancel", job)
    waited_for(lambda: state_of(slurm, job) == "CANCELLED")
    last = re.findall(r"stopped by SIGTERM after step (\d+), which is saved", output.read_text())[-1]
    assert int(last) >= step
    assert (tmp_path / "run" / f"ckpt-{last}.index").exists()
