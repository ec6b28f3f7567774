"""Reads tensors from files: safetensors, and those of torch without torch."""

import collections
import math
import pickle
import zipfile
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from t2t_lite.errors import UserError

# The number with which torch's files before version 1.6 begin; and the types of its storages.
_MAGIC = 0x1950A86A20F9469CFC6C
_TYPES = {
    **{"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8", "IntStorage": "<i4"},
    **{"ShortStorage": "<i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "?", "BFloat16Storage": "<u2"},
}


class _Storage(NamedTuple):
    type: str
    key: str
    size: int  # in numbers


class _Tensor(NamedTuple):
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, content: bytes) -> np.ndarray:
        """Returns the array, given the content of its storage. Raises ValueError if it does not lie in it."""
        numbers = (self.offset, *self.shape, *self.strides)
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        flat = np.frombuffer(content, _TYPES[self.storage.type])
        is_whole = all(type(number) is int and number >= 0 for number in numbers)
        if not is_whole or last >= len(flat) or math.prod(self.shape) > len(flat):
            raise ValueError("a tensor is not in its storage")
        if self.storage.type == "BFloat16Storage":
            flat = (flat.astype(np.uint32) << 16).view(np.float32)
        strides = [stride * flat.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, strides).copy()


class _Unpickler(pickle.Unpickler):
    """Reads tensors, and refuses whatever else a pickle may name, before anything of it runs."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file, encoding="utf-8")
        self._path = path

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: _Tensor(storage, offset, tuple(shape), tuple(strides))
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name in _TYPES:
            return name
        named = f"{module}.{name}"
        raise UserError(f"{self._path} names {named!r} beside tensors, so it is not read; nothing of it was run")

    def persistent_load(self, pid: Any) -> _Storage:  # noqa: ANN401
        kind, storage, key, _, size, *_ = pid
        if kind != "storage" or storage not in _TYPES:
            raise pickle.UnpicklingError(f"an unknown storage {kind}")
        return _Storage(storage, str(key), int(size))


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Returns the tensors in a file by name: safetensors, or torch's zip format, or the one before version 1.6.

    Raises UserError if the file names anything but tensors, and errors of many kinds if it is damaged.
    """
    if path.suffix == ".safetensors":
        return safetensors.numpy.load_file(path)
    storages: dict[str, bytes] = {}
    with path.open("rb") as file:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(file) as archive:
                (name,) = [each for each in archive.namelist() if each.endswith("/data.pkl")]
                if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
                    raise ValueError("torch compresses nothing")  # and little may become very much
                with archive.open(name) as content:
                    tensors = _Unpickler(content, path).load()
                folder = name.removesuffix("data.pkl") + "data/"
                storages = {each.storage.key: archive.read(folder + each.storage.key) for each in tensors.values()}
        else:
            magic, _, _ = (_Unpickler(file, path).load() for _ in range(3))
            if magic != _MAGIC:
                raise ValueError("not a file of torch")
            tensors = _Unpickler(file, path).load()
            types = {each.storage.key: np.dtype(_TYPES[each.storage.type]) for each in tensors.values()}
            for key in map(str, _Unpickler(file, path).load()):
                size = int.from_bytes(file.read(8), "little") * types[key].itemsize
                if size > path.stat().st_size:
                    raise ValueError("a storage is larger than the file")
                storages[key] = file.read(size)
    return {name: each.of(storages[each.storage.key]) for name, each in tensors.items()}
