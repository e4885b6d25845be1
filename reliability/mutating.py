"""A small mutator: bytes, JSON values and command lines, changed by seeded random numbers."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np

TOKENS = [
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r\n", b"\n", b"\r", b'"', b"'", b",", b"\t", b";", b"|", b" "),
    *(b"NaN", b"inf", b"-inf", b"1e309", b"-0", b"1e-400", b"0x10", b"1_0", "١٢".encode(), b"9" * 400, b"1,5"),
    *(b"=cmd|' /C calc'!A0", b"@SUM(1)", b"<script>alert(1)</script>", b"../../../etc/passwd", b"/dev/zero"),
    *(b"[" * 5000, b'{"a":' * 2000, b"null", b"true", b"{}", b"[]", b"\xc3\x28", "\u202e\u0000".encode()),
]
NUMBERS = [0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1, 255, 65535]
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 10**9, 2**63, -(2**63), 10**400, 0.5, -1.5, 1e308, "", "nan", "inf", "-inf", "x"),
    *([], {}, [[]], {"": None}, [None], "../..", "/dev/zero", "\x00", "os.system", {"float": "x"}, {"pairs": [[1]]}),
    *({"array": [1], "dtype": "O"}, {"array": [1], "dtype": "V999999999999"}, {"array": ["a"], "dtype": "<f8"}),
]


def mutated(data: bytes, rng: np.random.Generator, most: int = 6) -> bytes:
    """The bytes after a few random changes."""
    new = bytearray(data)
    for _ in range(int(rng.integers(1, most + 1))):
        place = int(rng.integers(len(new) + 1))
        size = int(rng.integers(1, 1 + max(1, min(64, len(new)))))
        match int(rng.integers(8)):
            case 0 if place < len(new):
                new[place] ^= 1 << int(rng.integers(8))
            case 1:
                new[place : place + size] = rng.bytes(size)
            case 2:
                del new[place : place + size]
            case 3:
                new[place:place] = TOKENS[int(rng.integers(len(TOKENS)))]
            case 4:
                del new[place:]
            case 5:
                new[place:place] = new[place : place + size] * int(rng.integers(1, 20))
            case 6:
                width = int(rng.choice([1, 2, 4, 8]))
                number = NUMBERS[int(rng.integers(len(NUMBERS)))] % 256**width
                new[place : place + width] = number.to_bytes(width, "little")
            case _:
                token = TOKENS[int(rng.integers(len(TOKENS)))]
                new[place : place + len(token)] = token
    return bytes(new)


def mutated_json(text: str, rng: np.random.Generator) -> str:
    """Valid JSON with one or two values changed, dropped or added, anywhere in it."""
    value = json.loads(text)
    for _ in range(int(rng.integers(1, 3))):
        spots = list(_spots(value))
        holder, key = spots[int(rng.integers(len(spots)))]
        if isinstance(holder, dict) and rng.random() < 0.2:
            del holder[key]
        else:
            holder[key] = deepcopy(VALUES[int(rng.integers(len(VALUES)))])  # it may be spoilt in its turn
        if not (isinstance(value, dict | list) and value):
            break
    return json.dumps(value)


def _spots(value: Any) -> Any:
    """Every place in a JSON value: its holder, and the key or index there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in list(pairs):
        yield value, key
        yield from _spots(entry)
