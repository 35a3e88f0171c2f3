"""The messages of an ONNX file (https://github.com/onnx/onnx, onnx.proto) that our graphs need, written as protobuf.

So a process that computes needs ONNX Runtime alone, and imports no `onnx`.  The numbers are those of the fields.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

IR_VERSION = 9
"""ONNX Runtime 1.20, the oldest version that we allow, reads this version."""

FLOAT, UINT8, INT8, INT32 = 1, 2, 3, 6
DATA_TYPES = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int32": INT32, "int64": 7}
"""ONNX's number of each NumPy type that a weight may have."""

Value = int | float | str | bytes


def message(*fields: tuple[int, Value]) -> bytes:
    """A message of these (field, value) pairs; a repeated field stands once for each value, and an inner message is bytes."""
    return b"".join(_field(number, value) for number, value in fields)


def _field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # protobuf writes a negative number as 64 bits
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    return bytes([*data, value])


def _each(number: int, values: Iterable[Value]) -> list[tuple[int, Value]]:
    return [(number, value) for value in values]


def node(
    kind: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    name: str = "",
    domain: str = "",
    **settings: float,
) -> bytes:
    """One operator; an input "" is left out.  A setting is an int or a float."""
    attributes = [
        message((1, key), (3, value), (20, 2))
        if isinstance(value, int)
        else message((1, key), (2, value), (20, 1))
        for key, value in settings.items()
    ]
    return message(
        *_each(1, inputs), *_each(2, outputs), (3, name), (4, kind), *_each(5, attributes), (7, domain)
    )


def tensor(name: str, value: NDArray[Any], *, has_data: bool) -> bytes:
    """A value of the graph, or without data the promise of one, which the session is given separately."""
    head = [*_each(1, value.shape), (2, DATA_TYPES[value.dtype.name]), (8, name)]
    if has_data:
        return message(
            *head, (9, np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<")).tobytes())
        )
    return message(*head, (13, message((1, "location"), (2, "memory"))), (14, 1))


def port(name: str, data_type: int, shape: Sequence[str]) -> bytes:
    """An input or output of the graph; `shape` has the names of its dimensions."""
    dimensions = message(*_each(1, [message((2, dimension)) for dimension in shape]))
    return message((1, name), (2, message((1, message((1, data_type), (2, dimensions))))))


def model(
    nodes: Iterable[bytes],
    tensors: Iterable[bytes],
    inputs: Iterable[bytes],
    output: bytes,
    versions: Mapping[str, int],
) -> bytes:
    """The file: `versions` of the operators by domain."""
    graph = message(*_each(1, nodes), (2, "graph"), *_each(5, tensors), *_each(11, inputs), (12, output))
    operators = [message((1, domain), (2, version)) for domain, version in versions.items()]
    return message((1, IR_VERSION), (7, graph), *_each(8, operators))
