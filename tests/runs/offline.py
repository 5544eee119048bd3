"""W&B's mirror, read back from the files that offline mode writes."""

import json
import struct
import time
from pathlib import Path

from hydra import compose, initialize_config_dir

from asbc.configs import conf_dir

TINY = ["embedding=digits", "samples_per_class=[4,6]", "trials=2", "progress=false", "method=[knn,nnk_sigma]"]


def config(out, *overrides):
    with initialize_config_dir(str(conf_dir()), version_base="1.3"):
        return compose("config", overrides=[*TINY, f"out={out}", *overrides])


def records(path):
    """All records of a .wandb file; W&B's own process may still be writing the last of them."""
    deadline = time.monotonic() + 300
    found = read_records(path)
    while not any(record.HasField("exit") for record in found) and time.monotonic() < deadline:
        time.sleep(0.1)
        found = read_records(path)
    return found


def read_records(path):
    """The records of a .wandb file so far: LevelDB's log format, 32 kB blocks after a header of 7 bytes."""
    from wandb.proto import wandb_internal_pb2 as pb

    raw = Path(path).read_bytes()
    assert raw[:4] in (b"", b":W&B")
    position, pending, found = 7, b"", []
    while position + 7 <= len(raw):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack("<IHB", raw[position : position + 7])
        if position + 7 + length > len(raw):
            break
        pending += raw[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or last piece
            record = pb.Record()
            record.ParseFromString(pending)
            found.append(record)
            pending = b""
    return found


def offline(out):
    return sorted(Path(out).rglob("*.wandb"))


def items(list_of_items):
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in list_of_items}
