"""The URL of an index server has its address, a user and a key prefix. Messages never show the
password."""

from __future__ import annotations

import pytest

from laurels.errors import UnknownUrl
from laurels.stores.redis.connection.urls import Host, RedisAddress, is_redis, redis_address


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://localhost", RedisAddress((Host("localhost", 6_379),))),
        ("redis://10.0.0.1:7000/", RedisAddress((Host("10.0.0.1", 7_000),))),
        ("redis://[::1]:7000/3", RedisAddress((Host("::1", 7_000),), database=3)),
        ("REDISS://cache.example", RedisAddress((Host("cache.example", 6_379),), tls=True)),
        ("redis://:secret@h", RedisAddress((Host("h", 6_379),), password="secret")),
        (
            "redis://bob:a%40b%2Fc:d@h?prefix=games:",
            RedisAddress((Host("h", 6_379),), user="bob", password="a@b/c:d", prefix="games:"),
        ),
        ("redis://h?prefix=", RedisAddress((Host("h", 6_379),), prefix="")),
        ("redis://a:1,b/2", RedisAddress((Host("a", 1), Host("b", 6_379)), database=2)),
        (
            "rediss://h?ca=/etc/a%20b.pem&prefix=x",
            RedisAddress((Host("h", 6_379),), tls=True, prefix="x", authorities="/etc/a b.pem"),
        ),
        (
            "redis+cluster://a:1,b:2,c",
            RedisAddress((Host("a", 1), Host("b", 2), Host("c", 6_379)), cluster=True),
        ),
        (
            "rediss+cluster://u:p@a:1/0",
            RedisAddress((Host("a", 1),), cluster=True, tls=True, user="u", password="p"),
        ),
    ],
)
def test_a_url_is_parsed(url: str, address: RedisAddress) -> None:
    assert is_redis(url)
    assert redis_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis://:hunter2@",
        "redis://:hunter2@h:0",
        "redis://:hunter2@h:65536",
        "redis://:hunter2@h:port",
        "redis://:hunter2@a,,b",
        "redis://:hunter2@h/one",
        "redis://:hunter2@h/1/2",
        "redis://:hunter2@h/-1",
        "redis://:hunter2@h?db=1",
        "redis://:hunter2@h?prefix=a&prefix=b",
        "redis://:hunter2@h?prefix={a}",
        "redis://:hunter2@h?prefix=a%20b",
        "redis://:hunter2@h#fragment",
        "redis://:hunter2@h?ca=/etc/ca.pem",
        "rediss://:hunter2@h?ca=",
        "rediss://:hunter2@h?ca=a&ca=b",
        "redis://:/hunter2@h",
        "redis://:?hunter2@h",
        "redis://:#hunter2@h",
        "redis://:[hunter2@h",
        "redis://:hunter2@[::1",
        "redis://:hunter2@h h",
        "redis://:hunter2\ud800@h",
        "redis+cluster://:hunter2@a,",
        "redis+cluster://:hunter2@a,,b",
        "redis+cluster://:hunter2@a/1",
        "redis+sentinel://:hunter2@a",
        "http://:hunter2@a",
        "hunter2",
    ],
)
def test_an_invalid_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(UnknownUrl) as refusal:
        redis_address(url)
    assert "hunter2" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_an_address_is_shown_without_its_password() -> None:
    address = redis_address("rediss+cluster://bob:hunter2@a:1,[::1]:2?prefix=games:")
    assert str(address) == "rediss+cluster://a:1,[::1]:2"
    assert "hunter2" not in f"{address!r} {address.__rich_repr__()}"


@pytest.mark.parametrize("url", ["./data", "memory:", "http://h", "redis", "redis:", None, 3])
def test_urls_of_other_stores_name_no_index_server(url: object) -> None:
    assert not is_redis(url)
