"""A service that a user would write instead: FastAPI over a sorted set of Redis.

`python -m bench.http.redis_app SOCKET PORT` serves it with uvicorn (uvloop, httptools, no access
log) until SIGTERM. Each request makes one round trip to Redis.
"""

import sys
from typing import Annotated, cast

import redis.asyncio
import uvicorn
from fastapi import FastAPI, HTTPException, Query
from pydantic import BaseModel


class Event(BaseModel):
    member: str
    value: float


class Standing(BaseModel):
    member: str
    score: float
    rank: int


class Applied(BaseModel):
    applied: int


def application(socket: str) -> FastAPI:
    """Return the service over the Redis server at a unix socket."""
    app = FastAPI()
    store = redis.asyncio.Redis(unix_socket_path=socket, decode_responses=True)

    @app.get("/ready")
    async def ready() -> bool:
        return bool(await store.ping())

    @app.post("/boards/{board}/scores")
    async def score(board: str, event: Event) -> Standing:
        async with store.pipeline(transaction=False) as pipeline:
            pipeline.zincrby(board, event.value, event.member)
            pipeline.zrevrank(board, event.member)
            total, rank = await pipeline.execute()
        return Standing(member=event.member, score=total, rank=rank + 1)

    @app.post("/boards/{board}/batches")
    async def batch(board: str, events: list[Event]) -> Applied:
        async with store.pipeline(transaction=False) as pipeline:
            for event in events:
                pipeline.zincrby(board, event.value, event.member)
            await pipeline.execute()
        return Applied(applied=len(events))

    @app.get("/boards/{board}/standing")
    async def standing(board: str, member: str) -> Standing:
        async with store.pipeline(transaction=False) as pipeline:
            pipeline.zrevrank(board, member)
            pipeline.zscore(board, member)
            rank, total = await pipeline.execute()
        if rank is None:
            raise HTTPException(404, "the member is not ranked")
        return Standing(member=member, score=total, rank=rank + 1)

    @app.get("/boards/{board}/top")
    async def top(board: str, limit: Annotated[int, Query(ge=1, le=1_000)] = 10) -> list[Standing]:
        answer = await store.zrevrange(board, 0, limit - 1, withscores=True)
        pairs = cast(list[tuple[str, float]], answer)
        return [
            Standing(member=member, score=total, rank=rank)
            for rank, (member, total) in enumerate(pairs, 1)
        ]

    return app


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[1]),
        port=int(sys.argv[2]),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
    )
