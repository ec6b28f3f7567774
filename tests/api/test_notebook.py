"""docs/tour.ipynb, executed in a Jupyter kernel."""

from pathlib import Path

import nbclient
import nbformat
import pytest

TOUR = Path(__file__).resolve().parents[2] / "docs" / "tour.ipynb"


@pytest.mark.heavy
def test_the_tour_runs_in_jupyter_and_shows_its_progress_as_text(tmp_path):
    notebook = nbformat.read(TOUR, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # outputs are made here, not kept
    nbclient.NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    printed = "".join(
        output["text"] for output in outputs if output.output_type == "stream" and output.name == "stdout"
    )
    assert [output["text"] for output in outputs if output.get("name") == "stderr"] == []
    assert "grammar_ende: train: 4000 pairs" in printed and "step 50: dev loss" in printed
    assert "stopped by a callback after step" in printed and "checkpoint=run/average-" in printed
    results = "".join(output["data"]["text/plain"] for output in outputs if output.output_type == "execute_result")
    assert "ended_by='callback'" in results and "split='test'" in results and "Hypothesis(text=" in results
    shown = "".join(output["data"]["text/plain"] for output in outputs if output.output_type == "display_data")
    assert "decoder_0" in shown and "Total params" in shown  # the model's summary
