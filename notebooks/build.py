"""Execute the notebooks' sources and write the .ipynb files next to them: `make notebooks`.

`python notebooks/build.py own_embeddings` writes only one.
"""

import os
import sys
import sysconfig
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"
COMPILING = "asbc: compiling"  # printed when a version runs for the first time
HERE = Path(__file__).parent
SOURCES = sorted(path for path in HERE.glob("*.py") if path.name != Path(__file__).name)


def execute(source: Path, timeout: int = 300) -> nbformat.NotebookNode:
    """Return a notebook with its outputs, without ids and times of this execution."""
    notebook = jupytext.read(source)
    commands = sysconfig.get_path("scripts")  # where `!asbc` is
    os.environ["PATH"] = os.pathsep.join([commands, os.environ.get("PATH", "")])
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": HERE}}).execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.pop("language_info", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata.pop("execution", None)
    return notebook


if __name__ == "__main__":
    for source in [path for path in SOURCES if path.stem in sys.argv[1:] or not sys.argv[1:]]:
        target = source.with_suffix(".ipynb")
        notebook = execute(source)
        for cell in notebook.cells:  # a slider needs a kernel; the figures above it stay
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
                cell.outputs = [output for output in cell.outputs if not output.get("text", "").startswith(COMPILING)]
        nbformat.write(notebook, target)
        print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")
