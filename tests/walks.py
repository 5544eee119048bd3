"""Which modules of asbc a call runs through: ``python -m tests.walks`` lists them for ``GraphBuilder.fit``."""

import sys
from pathlib import Path

import asbc

HOME = Path(asbc.__file__).parent


def walk(call):
    """Functions of asbc that run during ``call()``, by module, without those of the compiled kernels."""
    found = {}

    def note(frame, event, argument):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.suffix == ".py" and HOME in path.parents and frame.f_code.co_name != "<module>":
            module = path.relative_to(HOME).with_suffix("").as_posix().replace("/", ".")
            found.setdefault(module, set()).add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {module: sorted(names) for module, names in sorted(found.items()) if not module.startswith("kernels")}


def fit_graph():
    import numpy as np

    X = np.random.default_rng(0).normal(size=(300, 16))
    asbc.GraphBuilder().fit(X)  # warm: imports and compiled code do not count
    return walk(lambda: asbc.GraphBuilder().fit(X))


if __name__ == "__main__":
    for module, names in fit_graph().items():
        print(f"asbc.{module}: {', '.join(name for name in names if not name.startswith('<'))}")
