"""The outline of an encoded body agrees with the decoded document. The outline divides the body
into ranges of bytes (`pieces`), which together contain every element once."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from laurels.engine.batch.outline import (
    MALFORMED,
    TOO_DEEP,
    TOO_MANY_IN_ALL,
    TOO_MANY_VALUES,
    WHOLE,
    outline_json,
    outline_msgpack,
)

MANY = 10**9
TEXTS = ["", "a", '"', "\\", "\\\\", '\\"', "[", "]}", ",", "é\n", "{\\", "a,b]", "\\\\\\"]


def value(random: Random, depth: int = 0) -> Any:
    kind = random.randrange(4 if depth > 3 else 6)
    if kind == 0:
        return random.choice([None, True, False, 0, -1, 1.5, 2**40, -(2**33), 300, 70_000])
    if kind < 4:
        return random.choice(TEXTS) * random.choice([1, 1, 1, 40, 300, 70_000 if depth else 1])
    inside = [value(random, depth + 1) for _ in range(random.randrange(5))]
    return inside if kind == 4 else {f"{i}{random.choice(TEXTS)}": v for i, v in enumerate(inside)}


def spaced(random: Random, document: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document), indent=random.choice([-1, 0, 2]))


def weight(document: Any) -> int:
    """Return the number of values in a document, as msgpack counts them."""
    if isinstance(document, list):
        return 1 + sum(map(weight, document))
    if isinstance(document, dict):
        return 1 + sum(1 + weight(each) for each in document.values())
    return 1


@pytest.mark.parametrize("seed", range(60))
def test_pieces_of_a_list_make_the_list(seed: int) -> None:
    random = Random(seed)
    document = [value(random) for _ in range(random.randrange(30))]
    size = random.choice([1, 10, 1_000, 10**6])
    raw = spaced(random, document)
    verdict, _, is_list, count, pieces = outline_json(raw, MANY, size)
    assert (verdict, is_list, count) == (WHOLE, True, len(document))
    read = [msgspec.json.decode(b"[%b]" % raw[start:end]) for start, end, _ in pieces]
    assert [each for piece in read for each in piece] == document
    assert [len(piece) for piece in read] == [count for *_, count in pieces]
    assert all(end - start >= size for start, end, _ in pieces[:-1])

    packed = msgspec.msgpack.encode(document)
    verdict, at, is_list, count, pieces = outline_msgpack(packed, MANY, size)
    assert (verdict, at, is_list, count) == (WHOLE, len(packed), True, len(document))
    read = [
        msgspec.msgpack.decode(b"\xdd" + count.to_bytes(4, "big") + packed[start:end])
        for start, end, count in pieces
    ]
    assert [each for piece in read for each in piece] == document


@pytest.mark.parametrize("seed", range(30))
def test_pieces_of_lines_make_the_lines(seed: int) -> None:
    random = Random(seed)
    documents = [value(random) for _ in range(random.randrange(30))]
    raw = b"".join(
        msgspec.json.encode(each) + random.choice([b"\n", b"\r\n", b"\n\n \n"])
        for each in documents
    )
    raw = raw.strip() if random.random() < 0.5 else raw
    verdict, _, _, count, pieces = outline_json(raw, MANY, random.choice([1, 50, 10**6]), True)
    assert (verdict, count) == (WHOLE, len(documents))
    decoder = msgspec.json.Decoder()
    read = [decoder.decode_lines(raw[start:end]) for start, end, _ in pieces]
    assert [each for piece in read for each in piece] == documents


@pytest.mark.parametrize("seed", range(30))
def test_values_are_counted_by_element(seed: int) -> None:
    random = Random(seed)
    document = [value(random) for _ in range(10)]
    most = max(map(weight, document))
    packed = msgspec.msgpack.encode(document)
    assert outline_msgpack(packed, most, 100)[0] == WHOLE
    assert outline_msgpack(packed, most - 1, 100)[0] == TOO_MANY_VALUES


@pytest.mark.parametrize("n", [1, 2, 100])
def test_json_values_are_counted_up_to_the_limit(n: int) -> None:
    raw = msgspec.json.encode([["[,"] * n, 1])
    assert outline_json(raw, n, 100)[0] == WHOLE
    assert outline_json(raw, n - 1, 100)[0] == TOO_MANY_VALUES


@pytest.mark.parametrize("n", [1, 2, 100])
def test_the_values_of_all_elements_are_counted(n: int) -> None:
    raw = msgspec.json.encode([[1, 2]] * n)
    for document, lines in ((raw, False), (b"[1,2]\n" * n, True)):
        assert outline_json(document, MANY, 7, lines, 2 * n)[0] == WHOLE
        assert outline_json(document, MANY, 7, lines, 2 * n - 1)[0] == TOO_MANY_IN_ALL
    packed = msgspec.msgpack.encode([[1, 2]] * n)
    assert outline_msgpack(packed, MANY, 7, 3 * n)[0] == WHOLE
    assert outline_msgpack(packed, MANY, 7, 3 * n - 1)[0] == TOO_MANY_IN_ALL


@pytest.mark.parametrize(
    "raw",
    [
        *[b"[", b"[1", b"[1}", b'["a', b'["a\\"]', b"[1]]", b"[1] 2", b"[[1]", b"]", b"1]", b"[1,"],
        *[b'"', b'[{"a": [1]}', b"[1,\n", b'{"a": 1}}'],
    ],
)
def test_a_document_with_a_wrong_end_is_malformed(raw: bytes) -> None:
    assert outline_json(raw, MANY, 10)[0] == MALFORMED


@pytest.mark.parametrize("raw", [b"[1,]", b"[,]", b"[,1]", b"[1,,2]", b"[ , ]"])
@pytest.mark.parametrize("size", [1, 100])
def test_a_missing_element_is_detected_in_its_piece(raw: bytes, size: int) -> None:
    verdict, _, _, _, pieces = outline_json(raw, MANY, size)

    def is_wrong(start: int, end: int, count: int) -> bool:
        try:
            return len(msgspec.json.decode(b"[%b]" % raw[start:end])) != count
        except msgspec.DecodeError:
            return True

    assert verdict == MALFORMED or any(is_wrong(*piece) for piece in pieces)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_can_be_outlined(seed: int) -> None:
    random = Random(seed)
    for _ in range(300):
        raw = random.randbytes(random.randrange(40))
        for verdict, at, _, count, pieces in (
            outline_json(raw, 50, 3),
            outline_json(raw, 50, 3, True),
            outline_msgpack(raw, 50, 3),
            outline_msgpack(b"\xdd\0\0\0\4" + raw, 50, 3),
            outline_msgpack(b"\xdf\xff\xff\xff\xff" + raw, 50, 3),
        ):
            assert verdict in (WHOLE, MALFORMED, TOO_MANY_VALUES, TOO_DEEP)
            assert 0 <= at <= len(raw) + 5
            assert sum(count for *_, count in pieces) <= count


def test_msgpack_shorter_than_its_header_says_is_malformed() -> None:
    for header in (
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xdc",
    ):
        assert outline_msgpack(b"\x91" + header, MANY, 10)[0] == MALFORMED


def test_lists_in_lists_are_too_deep() -> None:
    assert outline_msgpack(b"\x91" + b"\xdd\0\0\0\1" * 2_000 + b"\1", 1_000, 10)[0] == TOO_DEEP
    assert outline_json(b"[" * 5_000, 1_000, 10)[0] == TOO_DEEP
    assert outline_json(b"[" + b"[]," * 5_000 + b"1]", 0, 10)[0] == TOO_MANY_VALUES


def test_a_document_that_is_not_a_list_is_one_element() -> None:
    assert outline_json(b' {"a": [1, 2]} ', MANY, 10)[:4] == (WHOLE, 15, False, 1)
    assert outline_json(b"", MANY, 10)[2:4] == (False, 0)
    assert outline_msgpack(msgspec.msgpack.encode({"a": [1]}), MANY, 10)[2:4] == (False, 1)
