"""A real cluster of servers on free ports of this machine."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tests.redis.servers import WITHIN_SECONDS, Server, fields, until

SLOTS = 16_384


class Cluster:
    """Three primaries that own the slots in equal parts, optionally with a replica each.

    A node that does not answer for `timeout_ms` is considered failed. Without replicas, no other
    node replaces it, and its slots are unavailable until it is back.
    """

    def __init__(self, *options: str, replicas: bool = False, timeout_ms: int = 5_000) -> None:
        timeout = ("--cluster-node-timeout", str(timeout_ms))
        self._options = ("--cluster-enabled", "yes", *timeout, *options)
        self.primaries: list[Server] = []
        self.replicas: list[Server] = []
        try:
            self._start(replicas)
        except BaseException:
            self.close()
            raise

    @property
    def nodes(self) -> list[Server]:
        return [*self.primaries, *self.replicas]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.primaries)

    @staticmethod
    def id_of(node: Server) -> bytes:
        """Return the id of a node in its cluster."""
        node_id: bytes = node.call("CLUSTER", "MYID")
        return node_id

    def slot_of(self, key: bytes) -> int:
        return int(self._any().call("CLUSTER", "KEYSLOT", key))

    def owner_of(self, key: bytes) -> Server:
        """Return the primary that owns a key, according to any running node."""
        slot = self.slot_of(key)
        for start, end, (_, port, *_), *_ in self._any().call("CLUSTER", "SLOTS"):
            if start <= slot <= end:
                return next(node for node in self.nodes if node.port == port)
        raise LookupError(f"no node owns slot {slot}")

    def replica_of(self, primary: Server) -> Server:
        """Return the replica that the primary got when the cluster was created."""
        return self.replicas[self.primaries.index(primary)]

    def wait_until_ok(self, seconds: float = WITHIN_SECONDS) -> None:
        """Wait until all running nodes agree on the owners of all slots, and all slots are
        available."""
        until(
            lambda: all(self._sees_ok(node) for node in self._running()),
            "every node sees all slots",
            seconds,
        )
        until(
            lambda: len({self._map(node) for node in self._running()}) == 1,
            "all nodes agree",
            seconds,
        )
        until(
            lambda: len({self._epoch(node) for node in self._running()}) == 1, "one epoch", seconds
        )

    def wait_until_down(self, seconds: float = WITHIN_SECONDS) -> None:
        """Wait until every running node has noticed that some slots are unavailable."""
        until(
            lambda: not any(self._sees_ok(node) for node in self._running()),
            "slots are unavailable",
            seconds,
        )

    def begin_migration(self, slot: int, source: Server, target: Server) -> None:
        """Begin to migrate a slot. The source redirects (ASK) requests for keys that it no longer
        has.

        Before that, all nodes must know the result of the previous migration. Otherwise two nodes
        may claim the same epoch, and a node may keep a wrong owner forever.
        """
        self.wait_until_ok()
        target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def move_keys(self, slot: int, source: Server, target: Server, limit: int = 1_000) -> int:
        """Move up to `limit` keys of a slot; return how many were moved."""
        keys = source.call("CLUSTER", "GETKEYSINSLOT", slot, limit)
        if keys:
            there = ("127.0.0.1", target.port, b"", 0, WITHIN_SECONDS * 1_000, "KEYS")
            source.call("MIGRATE", *there, *keys)
        return len(keys)

    def end_migration(self, slot: int, target: Server) -> None:
        """Make the target the owner of the slot. If a request for the slot reaches another node,
        that node then redirects it to the target (MOVED)."""
        for node in [target, *(node for node in self._owners() if node is not target)]:
            node.call("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def migrate(self, slot: int, source: Server, target: Server) -> None:
        """Migrate a slot completely."""
        self.begin_migration(slot, source, target)
        while self.move_keys(slot, source, target):
            pass
        self.end_migration(slot, target)

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def _start(self, replicas: bool) -> None:
        self.primaries += [Server(*self._options) for _ in range(3)]
        if replicas:
            self.replicas += [Server(*self._options) for _ in range(3)]
        for epoch, node in enumerate(self.nodes, 1):
            node.call("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        for index, node in enumerate(self.primaries):
            share = range(SLOTS * index // 3, SLOTS * (index + 1) // 3)
            node.call("CLUSTER", "ADDSLOTS", *share)
        first = self.primaries[0]
        for node in self.nodes[1:]:
            first.call("CLUSTER", "MEET", "127.0.0.1", node.port)
        until(lambda: all(self._knows_all(node) for node in self.nodes), "all nodes have met")
        for primary, replica in zip(self.primaries, self.replicas, strict=False):
            replica.call("CLUSTER", "REPLICATE", self.id_of(primary))
        self.wait_until_ok()
        until(lambda: all(self._follows(node) for node in self.replicas), "the replicas follow")

    def _running(self) -> list[Server]:
        return [node for node in self.nodes if node.runs]

    def _any(self) -> Server:
        return self._running()[0]

    def _owners(self) -> list[Server]:
        """Return the nodes that are primaries now."""
        return [node for node in self._running() if node.info("replication")["role"] == "master"]

    def _knows_all(self, node: Server) -> bool:
        return fields(node.call("CLUSTER", "INFO"))["cluster_known_nodes"] == str(len(self.nodes))

    def _sees_ok(self, node: Server) -> bool:
        return fields(node.call("CLUSTER", "INFO"))["cluster_state"] == "ok"

    @staticmethod
    def _map(node: Server) -> tuple[tuple[int, int, int], ...]:
        """Return the slots of each node, by port, according to one node."""
        slots = node.call("CLUSTER", "SLOTS")
        return tuple(sorted((start, end, owner[1]) for start, end, owner, *_ in slots))

    @staticmethod
    def _epoch(node: Server) -> str:
        return fields(node.call("CLUSTER", "INFO"))["cluster_current_epoch"]

    @staticmethod
    def _follows(node: Server) -> bool:
        return node.info("replication")["master_link_status"] == "up"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
