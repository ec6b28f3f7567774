"""Whether the machine has a GPU, as far as can be seen without TensorFlow."""

import pytest

from t2t_lite.system.machine import has_gpu


@pytest.mark.parametrize(
    ("device", "visible", "found"),
    [
        (None, None, False),
        ("nvidia0", None, True),
        ("nvidia0", "0,1", True),
        ("nvidia0", "", False),
        ("nvidia0", "-1", False),
        ("nvidiactl", None, False),  # the driver's, and no GPU
    ],
)
def test_a_gpu_is_seen_by_its_device_file_unless_it_is_hidden(tmp_path, monkeypatch, device, visible, found):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / "dev").mkdir()
    if device:
        (tmp_path / "dev" / device).touch()
    assert has_gpu(tmp_path) == found
