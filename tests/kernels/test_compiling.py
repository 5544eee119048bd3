import gc
import sys
from types import SimpleNamespace

import pytest

from asbc.kernels.compiling import MESSAGE, Watch


def compiled(module):
    return SimpleNamespace(data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))})


@pytest.mark.parametrize("terminal", [True, False])
def test_one_line_on_a_terminal_and_no_garbage_collection_meanwhile(monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # with which a notebook would be told
    watch = Watch("asbc.kernels")
    watch.on_start(compiled("numba.np.arrayobj"))  # somebody else's
    watch.on_end(compiled("numba.np.arrayobj"))
    assert capsys.readouterr().err == ""
    for _ in range(2):
        watch.on_start(compiled("asbc.kernels.nnk"))
        watch.on_start(compiled("numba.np.arrayobj"))  # for ours
        watch.on_end(compiled("numba.np.arrayobj"))
        assert not gc.isenabled()
        watch.on_end(compiled("asbc.kernels.nnk"))
        assert gc.isenabled()
    assert capsys.readouterr().err == (MESSAGE if terminal else "")


def test_functions_of_no_module_are_somebody_elses():
    # As pynndescent has them; its PyNNDescentTransformer failed once asbc was imported.
    watch = Watch("asbc.kernels")
    for happened in (compiled(None), SimpleNamespace(data={}), SimpleNamespace(data={"dispatcher": object()})):
        watch.on_start(happened)
        assert gc.isenabled()
        watch.on_end(happened)
