"""A primary dies and its replica takes over. From then on, the replica serves the boards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from laurels import config
from laurels.errors.index_server import IndexDenied, IndexUnavailable

from .cluster import Cluster
from .servers import Server, until
from .writing import BOARD, Writers, again, counted, opened


@pytest.fixture
def pair() -> Iterator[tuple[Server, Server]]:
    with Server() as primary:
        yield primary, primary.with_replica()


def url_of(*hosts: Server) -> str:
    return "redis://" + ",".join(f"127.0.0.1:{host.port}" for host in hosts)


def test_the_new_primary_is_found_during_writes(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with opened(url_of(primary, replica)) as lb:
        with Writers(lb, name="first ") as first:
            first.wait_for_more()
        replica.wait_until_in_step(primary)
        with Writers(lb, name="then ") as then:
            then.wait_for_more()
            primary.kill()
            replica.promote()
            then.wait_for_more(10)
            since = len(then.acknowledged)
            then.wait_for_more()
            primary.start()
            primary.follow(replica)
            refused = then.refused.total()
            then.wait_for_more()
            assert then.refused.total() == refused
        first.check()
        then.check(since=since)
        lb.check()
        assert "cmdstat_evalsha" not in primary.info("commandstats")
        replica.stop()
        with pytest.raises(IndexUnavailable):
            lb.submit(BOARD, "to the replica", 1)
        replica.start()
        again(lb)
        then.check(since=since)


def test_a_primary_that_becomes_a_replica_gets_no_more_writes(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with opened(url_of(replica, primary)) as lb:
        lb.submit(BOARD, "a", 1)
        for _ in range(2):
            replica.wait_until_in_step(primary)
            replica.promote()
            primary.follow(replica)
            primary, replica = replica, primary
            with pytest.raises(IndexUnavailable) as caught:
                lb.submit(BOARD, "a", 1)
            assert not caught.value.may_have_applied
            before = counted(lb)["a"]
            assert lb.submit(BOARD, "a", 1).score == before + 1


def test_hosts_that_are_down_or_are_replicas_are_skipped(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with Server() as away:
        away.kill()
        with opened(url_of(away, replica, primary)) as lb:
            assert lb.submit(BOARD, "a", 1).score == 1
    primary.kill()
    with pytest.raises(IndexUnavailable, match="is a primary that answers"):
        config.direct(url_of(primary, replica))


def test_a_login_refused_by_every_host_is_denied() -> None:
    with Server(password="hunter2") as one, Server(password="hunter2") as other:
        url = url_of(one, other).replace("://", "://:wrong@")
        with pytest.raises(IndexDenied) as caught:
            config.direct(url)
        assert "wrong" not in str(caught.value)


def test_with_two_primaries_no_write_is_sent(pair: tuple[Server, Server]) -> None:
    primary, replica = pair
    with opened(url_of(primary, replica)) as lb:
        lb.submit(BOARD, "a", 1)
        replica.wait_until_in_step(primary)
        primary.kill()
        with pytest.raises(IndexUnavailable):
            lb.submit(BOARD, "a", 1)
        replica.promote()
        primary.start()
        with pytest.raises(IndexUnavailable, match="make all but one a replica") as caught:
            lb.submit(BOARD, "a", 1)
        assert not caught.value.may_have_applied
        primary.follow(replica)
        assert lb.submit(BOARD, "a", 1).score == 2


def test_only_boards_of_a_failed_node_are_unavailable_until_failover() -> None:
    names = [f"b{i}" for i in range(6)]
    options = ("--cluster-require-full-coverage", "no")
    with (
        Cluster(*options, replicas=True, timeout_ms=1_000) as cluster,
        opened(cluster.url, *names) as lb,
    ):
        numbers = {name: number for number, name in enumerate(names, 1)}
        owners = {
            name: cluster.owner_of(b"laurels:{%d.0}:m" % number) for name, number in numbers.items()
        }
        home = cluster.owner_of(b"laurels:{boards}:d")
        dying = next(node for node in owners.values() if node is not home)
        lost = [name for name in names if owners[name] is dying]
        others = [name for name in names if owners[name] is not dying]
        with (
            Writers(lb, lost[0], threads=2, ids=True) as theirs,
            Writers(lb, others[0], threads=2, ids=True) as ours,
        ):
            theirs.wait_for_more()
            ours.wait_for_more()
            cluster.replica_of(dying).wait_until_in_step(dying)
            dying.kill()
            ours.wait_for_more()
            theirs.wait_for_more(10)
            since = len(theirs.acknowledged)
            assert not ours.refused
            theirs.wait_for_more()
        theirs.check(since=since)
        ours.check()
        dying.start()
        until(lambda: dying.info("replication")["role"] == "slave", "it is a replica")
        for name in names:
            lb.submit(name, "after", 1)
        lb.check()
