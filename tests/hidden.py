"""A Python in which packages of the extras are missing, although they are installed."""

import sys

EXPERIMENTS = ("filelock", "hydra", "hydra_plugins", "matplotlib", "omegaconf", "pandas", "platformdirs", "pyarrow")
EMBED = ("lightning", "PIL", "safetensors", "timm", "torch", "torchvision")
WANDB = ("wandb", "wandb_workspaces")
SCALE = ("dask", "distributed", "faiss", "fsspec", "pynndescent")
ALL = (*EXPERIMENTS, "rich", *EMBED, *WANDB, *SCALE, "networkx", "torch_geometric", "submitit", "umap")


class _Finder:
    packages = ALL

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in cls.packages or name.partition(".")[0] in cls.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def run_code(packages, code, arguments):
    """Run some code with these packages missing, and no others."""
    _Finder.packages = packages
    sys.argv = ["-c", *arguments]
    exec(code, {"__name__": "__main__"})


def warm_up():
    """Have all of them missing, so that what is imported next does without."""
    sys.meta_path.insert(0, _Finder)
