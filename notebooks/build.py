"""Execute the notebooks' sources and write the .ipynb files beside them: `make notebooks`."""

from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

WIDGET = "application/vnd.jupyter.widget-view+json"
COMPILING = "asbc: compiling"  # said once, by whoever runs a version first
HERE = Path(__file__).parent
SOURCES = sorted(path for path in HERE.glob("*.py") if path.name != Path(__file__).name)


def execute(source: Path, timeout: int = 300) -> nbformat.NotebookNode:
    """A notebook with its outputs, and without the marks of this one execution."""
    notebook = jupytext.read(source)
    NotebookClient(notebook, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": HERE}}).execute()
    notebook.metadata.pop("widgets", None)
    notebook.metadata.pop("language_info", None)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"
        cell.metadata.pop("execution", None)
    return notebook


if __name__ == "__main__":
    for source in SOURCES:
        target = source.with_suffix(".ipynb")
        notebook = execute(source)
        for cell in notebook.cells:  # a slider is nothing without a kernel; the figures above it stay
            if cell.cell_type == "code":
                cell.outputs = [output for output in cell.outputs if WIDGET not in output.get("data", {})]
                cell.outputs = [output for output in cell.outputs if not output.get("text", "").startswith(COMPILING)]
        nbformat.write(notebook, target)
        print(f"{target.name}: {target.stat().st_size / 1000:.0f} kB")
