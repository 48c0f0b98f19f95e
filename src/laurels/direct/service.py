"""The service of the direct deployment: what the verbs stand on where an index server is the truth.

Its coroutines run on one event loop, the caller's or one in a thread (`loop`); the methods without
`await` are for threads beside that loop. A write is accepted here as anywhere, planned by what this
process knows, and carried out by one call; where the server knows better, it is planned again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import nullcontext
from typing import Any, TypeVar, Unpack

import msgspec

from laurels import record as records
from laurels.accept import How, submission
from laurels.board import Board
from laurels.boards import BoardState, record_of, redefine
from laurels.clock import Clock, EventClock
from laurels.errors import Closed, NothingToBackUp, NotReady, PartlyCounted
from laurels.event import Batch
from laurels.fold import Folded
from laurels.index.asking import Ask
from laurels.index.base import Offset, changes
from laurels.index.remote import Behind, Opened, RemoteIndex, Stale, Unturned
from laurels.plan import counted_from, next_boundary, ranking_key, roll_of
from laurels.queries import Moment, Question
from laurels.receipt import Ranks
from laurels.service import MOST, SHARE
from laurels.snapshot.state import BoardRecord
from laurels.stats import BoardStats, CheckReport, Kept, Stats, WindowStats
from laurels.windows import MIN_MS, Rolling
from laurels.writes import FoldedWrite, Single, Submission

from .gather import Gatherer
from .registry import Registry

TRIES = 100
CALL_MOST = 1_000
"""The events of one call."""

T = TypeVar("T")


class Direct:
    """Boards on an index server."""

    def __init__(
        self,
        index: RemoteIndex,
        registry: Registry,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._index = index
        self._registry = registry
        self._clock = clock
        self._loop = loop
        self._close = close
        self._on_close: list[Callable[[], None]] = []
        self._ended: str | None = None
        self._latest_ms = MIN_MS
        self._gatherer = Gatherer(self._carry_out)
        self._passes: dict[tuple[int, str], None] = {}
        self.paced = False

    # For threads beside the loop

    def run(self, coroutine: Any) -> Any:
        """What a coroutine of this answers, for a caller beside its loop."""
        try:
            self.ensure_usable()
        except Closed:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def ask(self, board: str, asked: Callable[[Moment], Question[T]]) -> T:
        """The answer to a question about a board, all of one state."""
        answer: T = self.run(self.ask_async(board, asked))
        return answer

    ask_at_once = ask

    def write(self, write: FoldedWrite) -> Any:
        """Carries out a write and answers its result; raises what refused it."""
        return self.run(self.write_async(write))

    def named(self, board: str) -> BoardState:
        """The board of that name."""
        if board not in self._registry.boards.boards:
            self.run(self._registry.load())
        return self._registry.boards.named(board)

    def boards(self) -> list[BoardState]:
        """All boards, in the order of their names."""
        self.run(self._registry.load())
        known = self._registry.boards.boards
        return [known[name] for name in sorted(known)]

    def reading(self) -> nullcontext[None]:
        """There is nothing to hold while a question is asked. Raises Closed after the end."""
        self.ensure_usable()
        return nullcontext()

    def submission(
        self, board: str, events: Iterable[Any], window: str | None, **how: Unpack[How]
    ) -> Submission:
        """Accepts events: judges their form and makes them columns."""
        event_time = isinstance(self._clock, EventClock)
        return submission(self.named(board), events, window, event_time=event_time, **how)

    def position(self, board: str, source: str) -> str | None:
        """The position committed last for a source."""
        found: str | None = self.run(self._index.position(_opened(self.named(board)), source))
        return found

    def board_stats(self, board: str, *, patient: bool = True) -> BoardStats:
        """The figures of a board."""
        found: BoardStats = self.run(self._again(board, self._board_stats))
        return found

    def stats(self) -> Stats:
        """The figures of all boards."""
        found: Stats = self.run(self._stats())
        return found

    def check(self) -> CheckReport:
        """Compares every ranking with what it follows from, share by share, while others write."""
        report: CheckReport = self.run(self._audit(mend=False))
        return report

    def rebuild(self) -> None:
        """Puts every ranking right by what it follows from, share by share, while others write."""
        self.run(self._audit(mend=True))

    def snapshot(self) -> int:
        """There is none: what is kept, the server keeps."""
        raise NothingToBackUp("the boards are on an index server, which keeps them its own way")

    def work(self, limit: int) -> tuple[int, int]:
        """Does a share of what time has made due; what is left, and the milliseconds until more
        is."""
        done: tuple[int, int] = self.run(self._work(limit))
        return done

    def ensure_usable(self) -> None:
        """Raises Closed after the end."""
        if self._ended is not None:
            raise Closed(self._ended)

    def close(self) -> None:
        """Carries out what is queued and closes; another close does nothing."""
        if self._ended is None:
            self.run(self._finish())
            for action in self._on_close:
                action()

    def on_close(self, action: Callable[[], None]) -> None:
        """Has `action` called when this is closed, after the connection is."""
        self._on_close.append(action)

    async def _finish(self) -> None:
        self._ended = "the store is closed"
        await self._gatherer.finish()
        stop = getattr(self._clock, "stop", None)
        if stop is not None:
            await stop()
        await self._close()

    # Questions

    async def know(self, board: str) -> BoardState:
        """The board of that name."""
        if board not in self._registry.boards.boards:
            await self._registry.load()
        return self._registry.boards.named(board)

    async def ask_async(self, board: str, asked: Callable[[Moment], Question[T]]) -> T:
        """The answer to a question about a board, all of one state."""
        self.ensure_usable()
        for _ in range(TRIES):
            state = await self.know(board)
            now_ms = self._now()
            try:
                return await self._answer(state, asked(Moment(state, now_ms)), now_ms)
            except Stale:
                await self._refresh(state)
            except Behind as behind:
                self._see(behind.now_ms)
            except Unturned:
                await self._turn(state, self._now())
        raise NotReady(f"the board {board!r} does not stand still")

    async def _answer(self, state: BoardState, question: Question[T], now_ms: int) -> T:
        opened, due_ms = _opened(state), next_boundary(state.rules, now_ms)
        while True:
            read = await self._index.read(opened, question.asks, now_ms=now_ms, due_ms=due_ms)
            answer = question.answer(read.found, read.offset)
            if not isinstance(answer, Question):
                return answer
            question = answer

    # Figures and order

    async def _again(self, board: str, look: Callable[[BoardState], Awaitable[T]]) -> T:
        """What a look at a board says, repeated where the board was known wrongly."""
        for _ in range(TRIES):
            state = await self.know(board)
            try:
                return await look(state)
            except Stale:
                await self._refresh(state)
            except Behind as behind:
                self._see(behind.now_ms)
            except Unturned:
                await self._turn(state, self._now())
        raise NotReady(f"the board {board!r} does not stand still")

    async def _board_stats(self, state: BoardState) -> BoardStats:
        opened, now_ms = _opened(state), self._now()
        await self._turn(state, now_ms)
        keys = await self._index.keys(opened)
        sizes = {key: await self._index.nbytes(opened, key) for key in keys}
        asks = [
            Ask(ranking_key(state.number, window, window.period_at(now_ms)))
            for window in state.rules.windows.values()
        ]
        due_ms = next_boundary(state.rules, now_ms)
        read = await self._index.read(opened, asks, now_ms=now_ms, due_ms=due_ms)
        windows = [
            WindowStats(
                window=name,
                period=window.period_at(now_ms).label or None,
                members=found.total,
                rankings=sum(key.window == name for key in keys),
                nbytes=sum(size for key, size in sizes.items() if key.window == name),
            )
            for (name, window), found in zip(state.rules.windows.items(), read.found, strict=True)
        ]
        return BoardStats(
            board=state.board.name,
            version=state.version,
            created_ms=state.created_ms,
            windows=windows,
            remembered=await self._index.remembered(opened, now_ms),
            nbytes=sum(sizes.values()),
            offset=read.offset,
        )

    async def _stats(self) -> Stats:
        await self._registry.load()
        boards = [await self._again(name, self._board_stats) for name in self._known()]
        return Stats(
            boards=len(boards),
            members=sum(max((w.members for w in each.windows), default=0) for each in boards),
            nbytes=sum(each.nbytes for each in boards),
            log_nbytes=0,
            offset=sum(changes(each.offset) for each in boards),
            now_ms=self._now(),
            kept=Kept(log_from=1),
        )

    async def _audit(self, *, mend: bool) -> CheckReport:
        await self._registry.load()
        rankings = entries = offset = 0

        async def look(state: BoardState) -> None:
            nonlocal rankings, entries, offset
            opened = _opened(state)
            await self._turn(state, self._now())
            for key in await self._index.keys(opened):
                entries += await self._index.audit(opened, key, mend=mend)
                rankings += 1
            offset += changes(await self._index.offset(opened))

        names = self._known()
        for name in names:
            await self._again(name, look)
        return CheckReport(len(names), rankings, entries, offset)

    def _known(self) -> list[str]:
        return sorted(self._registry.boards.boards)

    # Time

    def _now(self) -> int:
        self._see(self._clock.now_ms())
        return self._latest_ms

    def _see(self, now_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, now_ms)
        if isinstance(self._clock, EventClock):
            self._clock.observe(now_ms)

    async def _turn(self, state: BoardState, now_ms: int) -> None:
        """Brings the rolling windows of a board to the step that runs; NotReady after MOST
        members: another call goes on from there."""
        for window in state.rules.windows.values():
            roll = roll_of(state.number, window, now_ms)
            if roll is None:
                continue
            for _ in range(0, MOST, SHARE):
                if await self._index.turn(_opened(state), roll, now_ms, SHARE):
                    break
            else:
                raise NotReady(f"a step of the board {state.board.name!r} is being prepared")
            self._passes[state.number, window.name] = None

    async def _work(self, limit: int) -> tuple[int, int]:
        now_ms = self._now()
        left = 0
        for state in list(self._registry.boards.boards.values()):
            if state.due_ms <= now_ms:
                await self._pass_boundary(state, now_ms)
            for window in state.rules.windows.values():
                if isinstance(window, Rolling) and limit > 0:
                    left += await self._index.advance(_opened(state), window.name, limit)
        due = [state.due_ms for state in self._registry.boards.boards.values()]
        return left, max(0, min(due, default=now_ms) - now_ms)

    async def _pass_boundary(self, state: BoardState, now_ms: int) -> None:
        """Does what the end of a period or step has made due for a board."""
        try:
            await self._turn(state, now_ms)
            oldest_ms = {
                name: counted_from(window, state.floors.get(name, MIN_MS), now_ms)
                for name, window in state.rules.windows.items()
                if not isinstance(window, Rolling)
            }
            keys = await self._index.keys(_opened(state))
            gone = [k for k in keys if k.instance < oldest_ms.get(k.window, k.instance)]
            await self._index.drop(_opened(state), gone)
        except Stale:
            await self._refresh(state)
        state.due_ms = next_boundary(state.rules, now_ms)

    # Writes

    async def write_async(self, write: FoldedWrite) -> Any:
        """Carries out a write and answers its result; raises what refused it."""
        self.ensure_usable()
        return await self._gatherer.write(write)

    async def _carry_out(self, write: FoldedWrite) -> Any:
        if isinstance(write, Submission):
            offset = await self._submit(write)
            if not self.paced and write.board.due_ms <= self._latest_ms:
                await self._pass_boundary(write.board, self._latest_ms)
            return write.results(offset)
        assert isinstance(write, Single)
        await self._record(write)
        return write.results(0)

    async def _submit(self, write: Submission) -> Offset:
        boards = self._registry.boards
        write.accept(boards, self._now())
        offset = await self._index.offset(_opened(write.board)) if not write.batches else 0
        if write.bare is not None:
            source, text = write.bare.position
            await self._index.set_position(_opened(write.board), source, text)
        first = 0
        for batch in write.batches:
            for call in _calls(batch):
                offset = await self._count(write, call, first)
                first += call.size
            self._see(batch.now_ms)
        return offset

    async def _count(self, write: Submission, batch: Batch, first: int) -> Offset:
        """Counts a piece of a submission, its events from the `first`; the offset after it."""
        window, ranks = write.watched
        places: list[int] | None = None
        for _ in range(TRIES):
            state = write.board = self._registry.boards.current(write.board)
            plan = self._registry.boards.plan(batch)
            try:
                applied = await self._index.apply(
                    _opened(state),
                    batch,
                    plan,
                    plan.windows.index(window),
                    ranks=ranks,
                    due_ms=next_boundary(state.rules, batch.now_ms),
                )
            except Stale:
                await self._refresh(state)
            except Behind as behind:
                batch = msgspec.structs.replace(batch, now_ms=max(batch.now_ms, behind.now_ms))
            except Unturned:
                await self._turn(state, batch.now_ms)
            else:
                told = None
                if applied.ranks_before is not None and applied.ranks_after is not None:
                    told = Ranks(applied.ranks_before, applied.ranks_after)
                if applied.left is None:
                    write.counted(Folded(batch, plan, applied.outcomes), told, places)
                    return applied.offset
                places = list(range(first, first + batch.size)) if places is None else places
                left = set(applied.left)
                done = [i for i in range(batch.size) if i not in left]
                folded = Folded(batch.take(done), plan.taken(done), applied.outcomes)
                write.counted(folded, told, [places[i] for i in done])
                places = [places[i] for i in applied.left]
                batch = batch.take(applied.left)
        if places is not None:
            raise PartlyCounted(f"{batch.size} events of the batch were not counted")
        raise NotReady(f"the board {write.board.board.name!r} does not stand still")

    async def _record(self, write: Single) -> None:
        """Carries out a write of one record, proposed again where another was faster."""
        for _ in range(TRIES):
            proposed = write.records(self._registry.boards, self._now())
            try:
                if not proposed:
                    return
                if await self._done(write, proposed[0]):
                    return
            except Stale:
                await self._registry.load()
        raise NotReady("the boards do not stand still")

    async def _done(self, write: Single, record: records.Record) -> bool:
        """Carries out a record; False when it has to be proposed again."""
        match record:
            case records.Create():
                return await self._create(record)
            case records.Change():
                return await self._change(record)
            case records.Delete():
                state = self._registry.boards.by_number(record.board)
                if not await self._registry.delete(state):
                    return False
                await self._index.close(_opened(state))
            case records.Remove():
                state = self._registry.boards.by_number(record.board)
                await self._pass_boundary(state, record.now_ms)
                opened = _opened(self._registry.boards.by_number(record.board))
                write.settle(await self._index.remove(opened, record.member, record.now_ms))
            case records.MemberData():
                opened = _opened(self._registry.boards.by_number(record.board))
                await self._index.set_data(opened, record.member, record.data)
        return True

    async def _create(self, record: records.Create) -> bool:
        board = Board.from_json(record.definition)
        kept = BoardRecord(
            number=record.board,
            definition=record.definition,
            version=record.version,
            created_ms=record.now_ms,
            floors={},
            positions={},
            due_ms=MIN_MS,
        )
        if not await self._registry.create(kept, board.name):
            return False
        await self._index.open(Opened(record.board, record.version, board.rules()))
        return True

    async def _change(self, record: records.Change) -> bool:
        state = self._registry.boards.by_number(record.board)
        changed = msgspec.structs.replace(state)
        board = Board.from_json(record.definition)
        redefine(changed, board, record.version, record.now_ms)
        if not await self._registry.change(state, record_of(changed)):
            return False
        await self._index.open(_opened(changed))
        return True

    async def _refresh(self, state: BoardState) -> None:
        """Reads the definitions again and has the server know this board, if it is one."""
        await self._registry.load()
        known = self._registry.boards.numbered(state.number)
        if known is not None:
            await self._index.open(_opened(known))


def _calls(batch: Batch) -> list[Batch]:
    """A batch as the calls that carry it out: a long one holds the server up for everybody, so it
    goes in several, unless it is all or nothing. Its position goes with the last."""
    if batch.atomic or batch.size <= CALL_MOST:
        return [batch]
    ends = [*range(CALL_MOST, batch.size, CALL_MOST), batch.size]
    *calls, last = batch.split(ends, [batch.now_ms] * len(ends))
    return [*(msgspec.structs.replace(call, position=None) for call in calls), last]


def _opened(state: BoardState) -> Opened:
    return Opened(state.number, state.version, state.rules)
