"""Leaderboards in a FastAPI program, whose handlers await laurels and return its answers unchanged.

    pip install fastapi uvicorn
    uvicorn --app-dir examples fastapi_app:app
    curl -X POST 'localhost:8000/scores?member=alice&points=12.50'
    curl localhost:8000/top

Every answer is a mapping of plain values, so a handler can return it. Scores with decimals are sent
as text ("12.50"), since most programs would read a JSON number as a binary float. To add fields to
an answer, use the dict that `answer.to_dict()` returns.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

import laurels


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the boards with the program and close them with it."""
    async with laurels.open_async(os.environ.get("BOARDS", "laurels-data")) as lb:
        points = laurels.Column("points", scale=2)
        await lb.create(
            laurels.Board("gifts", columns=[points], windows=["all", "day"]), exist_ok=True
        )
        app.state.boards = lb
        yield


def boards(request: Request) -> laurels.AsyncLeaderboards:
    """Return the boards of the program."""
    opened: laurels.AsyncLeaderboards = request.app.state.boards
    return opened


Boards = Annotated[laurels.AsyncLeaderboards, Depends(boards)]
app = FastAPI(lifespan=_lifespan)


@app.exception_handler(laurels.LaurelsError)
async def refused(_: Request, error: laurels.LaurelsError) -> JSONResponse:
    """Respond to an error of laurels with its HTTP status and its stable code."""
    return JSONResponse({"code": error.code, "detail": str(error)}, error.status)


@app.post("/scores")
async def submit(lb: Boards, member: str, points: str) -> laurels.Receipt:
    return await lb.submit("gifts", member, points)


@app.get("/top")
async def top(lb: Boards, limit: int = 10, window: str | None = None) -> laurels.Page:
    return await lb.top("gifts", limit=limit, window=window)


@app.get("/members/{member}")
async def standing(lb: Boards, member: str) -> dict[str, Any]:
    entry = await lb.standing("gifts", member)
    if entry is None:
        raise HTTPException(404, f"{member} is not ranked")
    return {**entry.to_dict(), "is_first": entry.rank == 1}
