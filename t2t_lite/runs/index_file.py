"""Reads the content of a checkpoint without TensorFlow: names, shapes, and the members of an average.

`<checkpoint>.index` is an uncompressed LevelDB table (https://github.com/google/leveldb/blob/main/doc/table_format.md)
that maps the name of each tensor to a BundleEntryProto (tensorflow/core/protobuf/tensor_bundle.proto).
"""

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from t2t_lite.errors import UserError
from t2t_lite.runs.checkpoint_files import DATA, INDEX

_FOOTER, _MAGIC = 48, 0xDB4775248B80FB57  # bytes in the footer of a table, and the number at its end
_INT64 = 9  # DT_INT64
_MOST = 2**20  # maximum bytes for the members of an average; a larger size means a damaged file
_KEY_END = "/.ATTRIBUTES/VARIABLE_VALUE"
_MODEL, _MEMBERS = "model/", f"average/members{_KEY_END}"


class Tensor(NamedTuple):
    """The location of a tensor in a checkpoint's data."""

    dtype: int  # TensorFlow's DataType
    shape: tuple[int, ...]
    offset: int  # in bytes
    size: int  # in bytes


def read_index(path: Path) -> dict[str, Tensor]:
    """Returns the tensors of a checkpoint (a path without suffix) by name. Raises a UserError if it is damaged."""
    file = Path(f"{path}{INDEX}")
    try:
        table = file.read_bytes()
        if len(table) < _FOOTER or struct.unpack("<Q", table[-8:])[0] != _MAGIC:
            raise ValueError("not a table")
        footer = table[-_FOOTER:]
        _, place = _handle(footer, 0)  # skips the handle of the metaindex block, which is not used
        (start, size), _ = _handle(footer, place)
        blocks = [_handle(value, 0)[0] for _, value in _entries(table[start : start + size])]
        pairs = [pair for start, size in blocks for pair in _entries(table[start : start + size])]
        return {key.decode(): _tensor(value) for key, value in pairs if key}  # the entry "" describes the file
    except (OSError, ValueError, IndexError, struct.error) as error:
        raise UserError(f"checkpoint {path} is damaged ({error}); remove {path}.* to continue without it") from error


def num_parameters(path: Path) -> int:
    """Returns the number of model parameters in a checkpoint. Argument and errors: see `read_index`."""
    return sum(math.prod(tensor.shape) for name, tensor in read_index(path).items() if name.startswith(_MODEL))


def members_of_average(path: Path) -> list[int]:
    """Returns the steps of the members of an average; [] if unknown, as for a moving average."""
    tensor = read_index(path).get(_MEMBERS)
    if tensor is None or tensor.dtype != _INT64:
        return []
    try:
        if tensor.size > _MOST:
            raise ValueError(f"{tensor.size} bytes of members")
        with open(f"{path}{DATA}", "rb") as file:
            file.seek(tensor.offset)
            return list(struct.unpack(f"<{tensor.size // 8}q", file.read(tensor.size)))
    except (OSError, ValueError, struct.error) as error:
        raise UserError(f"checkpoint {path} is damaged ({error}); remove {path}.* to continue without it") from error


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields (key, value) for each entry in a block of a table.

    An entry stores its key without the prefix that it shares with the previous key.
    """
    (restarts,) = struct.unpack("<I", block[-4:])
    end, place, key = len(block) - 4 * (restarts + 1), 0, b""
    while place < end:
        shared, place = _varint(block, place)
        others, place = _varint(block, place)
        length, place = _varint(block, place)
        key = key[:shared] + block[place : place + others]
        place += others
        yield key, block[place : place + length]
        place += length


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    """Returns ((offset, size), the place after the handle) for the block handle at `place`."""
    offset, place = _varint(data, place)
    size, place = _varint(data, place)
    return (offset, size), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Returns (number, the place after it) for the number at `place`, which is stored with 7 bits per byte."""
    number = shift = 0
    while True:
        byte = data[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place


def _tensor(entry: bytes) -> Tensor:
    """Returns the tensor that a BundleEntryProto describes in its fields 1 dtype, 2 shape, 4 offset and 5 size."""
    fields = dict(_fields(entry))
    shape_proto = fields.get(2, b"")
    if isinstance(shape_proto, int):
        raise ValueError("a shape that is a number")
    dims = [dict(_fields(value)) for number, value in _fields(shape_proto) if number == 2 and isinstance(value, bytes)]
    shape = tuple(int(dim.get(1, 0)) for dim in dims)
    return Tensor(int(fields.get(1, 0)), shape, int(fields.get(4, 0)), int(fields.get(5, 0)))


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields (number, value) for the fields of a protocol buffer; groups do not occur."""
    place = 0
    while place < len(message):
        tag, place = _varint(message, place)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of wire type {kind}")
        yield number, message[place : place + size]
        place += size
