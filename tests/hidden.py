"""Run code in a Python that does not find some installed packages."""

import sys

EXPERIMENTS = ("hydra", "hydra_plugins", "matplotlib", "omegaconf", "pandas", "platformdirs", "pyarrow")
EMBED = ("lightning", "PIL", "safetensors", "timm", "torch", "torchvision")
WANDB = ("wandb", "wandb_workspaces")
SCALE = ("dask", "distributed", "faiss", "fsspec", "pynndescent")
ALL = (*EXPERIMENTS, "rich", *EMBED, *WANDB, *SCALE, "networkx", "torch_geometric", "submitit", "umap")


class _Finder:
    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if name in self.packages or name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def run_code(packages, code, arguments):
    """Run code with `arguments` as its command line; `packages` cannot be imported."""
    sys.meta_path.insert(0, _Finder(packages))
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})
